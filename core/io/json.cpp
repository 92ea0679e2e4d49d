#include "core/io/json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/io/lfs_pointer.hpp"
#include "core/io/mapped_file.hpp"

namespace tandem {

namespace {

/// The parser itself keeps its stack on the heap, but copying or printing a value recurses, so depth is
/// refused before anything is built. A raw NUL is refused here as well: the parser would take it for the end
/// and ignore the rest.
void check_nesting(std::string_view text, std::string_view where) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\0') fail(ErrorCode::corrupt, "{}: not valid JSON at byte {}: a NUL byte", where, i + 1);
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) {
        fail(ErrorCode::corrupt, "{}: JSON nested deeper than {} levels at byte {}", where, kMaxJsonDepth,
             i + 1);
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

/// The parser's sentence without its own error number and position, and without the token that it read last,
/// which may be as long as the file.
std::string parser_reason(const Json::exception& error) {
  std::string_view text = error.what();
  if (const auto end = text.find("] "); end != text.npos) text.remove_prefix(end + 2);
  if (text.starts_with("parse error")) {
    if (const auto colon = text.find(": "); colon != text.npos) text.remove_prefix(colon + 2);
  }
  text = text.substr(0, text.find("; last read"));
  constexpr std::size_t kLongest = 200;
  return std::string(text.substr(0, kLongest));
}

[[noreturn]] void fail_value(std::string_view where, std::string_view key, std::string_view expected,
                             const Json& found) {
  fail(ErrorCode::invalid_argument, "{}: {}: expected {}, found {}", where, key, expected, describe(found));
}

[[noreturn]] void fail_missing(std::string_view where, std::string_view key, std::string_view expected) {
  fail(ErrorCode::invalid_argument, "{}: {} is missing, expected {}", where, key, expected);
}

std::string int_range(std::int64_t min, std::int64_t max) {
  return fmt::format("an integer of {} to {}", min, max);
}

std::int64_t to_int(const Json& value, std::string_view key, std::int64_t min, std::int64_t max,
                    std::string_view where) {
  const bool fits = value.is_number_unsigned() ? std::in_range<std::int64_t>(value.get<std::uint64_t>())
                                               : value.is_number_integer();
  if (!fits) fail_value(where, key, int_range(min, max), value);
  const auto number = value.get<std::int64_t>();
  if (number < min || number > max) fail_value(where, key, int_range(min, max), value);
  return number;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  refuse_lfs_pointer(text, where);
  check_nesting(text, where);
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    fail(ErrorCode::corrupt, "{}: not valid JSON at byte {}: {}", where, error.byte, parser_reason(error));
  } catch (const Json::exception& error) {  // a number that no double holds
    fail(ErrorCode::corrupt, "{}: not valid JSON: {}", where, parser_reason(error));
  }
}

std::string quote_non_finite(std::string_view text) {
  constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};
  std::string result;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    const auto* word =
        std::ranges::find_if(kWords, [&](auto w) { return !in_string && rest.starts_with(w); });
    if (word != std::end(kWords)) {
      result += fmt::format("\"{}\"", *word);
      i += word->size() - 1;
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    result += text[i];
    if (in_string && text[i] == '\\' && i + 1 < text.size()) result += text[++i];
  }
  return result;
}

Json read_json_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  return parse_json(read_text_file(path, max_bytes), path.string());
}

const Json* find_member(const Json& object, std::string_view key, std::string_view where) {
  if (!object.is_object()) {
    fail(ErrorCode::invalid_argument, "{}: expected an object with {}, found {}", where, key,
         describe(object));
  }
  const auto member = object.find(key);
  return member == object.end() || member->is_null() ? nullptr : &*member;
}

const Json* find_object(const Json& object, std::string_view key, std::string_view where) {
  const Json* member = find_member(object, key, where);
  if (member != nullptr && !member->is_object()) fail_value(where, key, "an object", *member);
  return member;
}

std::optional<std::int64_t> optional_int(const Json& object, std::string_view key, std::int64_t min,
                                         std::int64_t max, std::string_view where) {
  const Json* value = find_member(object, key, where);
  if (value == nullptr) return std::nullopt;
  return to_int(*value, key, min, max, where);
}

std::int64_t required_int(const Json& object, std::string_view key, std::int64_t min, std::int64_t max,
                          std::string_view where) {
  const auto value = optional_int(object, key, min, max, where);
  if (!value) fail_missing(where, key, int_range(min, max));
  return *value;
}

std::optional<std::vector<std::int64_t>> optional_ints(const Json& object, std::string_view key,
                                                       std::int64_t min, std::int64_t max,
                                                       std::string_view where) {
  const Json* value = find_member(object, key, where);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int64_t> numbers;
  if (value->is_array()) {
    for (const Json& item : *value) numbers.push_back(to_int(item, key, min, max, where));
  } else {
    numbers.push_back(to_int(*value, key, min, max, where));
  }
  return numbers;
}

std::optional<double> optional_double(const Json& object, std::string_view key, std::string_view where) {
  const Json* value = find_member(object, key, where);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail_value(where, key, "a number", *value);
  return value->get<double>();
}

std::optional<bool> optional_bool(const Json& object, std::string_view key, std::string_view where) {
  const Json* value = find_member(object, key, where);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail_value(where, key, "true or false", *value);
  return value->get<bool>();
}

std::optional<std::string> optional_string(const Json& object, std::string_view key, std::string_view where) {
  const Json* value = find_member(object, key, where);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail_value(where, key, "a string", *value);
  return value->get<std::string>();
}

std::string required_string(const Json& object, std::string_view key, std::string_view where) {
  auto value = optional_string(object, key, where);
  if (!value) fail_missing(where, key, "a string");
  return *std::move(value);
}

std::string describe(const Json& value) {
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_object()) return fmt::format("an object of {}", value.size());
  return value.dump();
}

std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  const std::string shown(text.substr(0, kLongest));
  // Bytes that are no UTF-8, such as a character cut by the line above, are replaced rather than refused.
  std::string result = Json(shown).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongest) result += "...";
  return result;
}

}  // namespace tandem
