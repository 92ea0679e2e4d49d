#include "core/text/json_node.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/text/utf8.hpp"

namespace tandem::text {
namespace {

/// A tokenizer.json is four or five deep. The bound keeps recursion over nested "Sequence" entries off the
/// stack's end.
constexpr int kMaxDepth = 64;

const nlohmann::json& null_value() {
  static const nlohmann::json value;
  return value;
}

std::string describe(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::null:
      return "nothing";
    case nlohmann::json::value_t::object:
      return fmt::format("an object of {}", value.size());
    case nlohmann::json::value_t::array:
      return fmt::format("a list of {}", value.size());
    case nlohmann::json::value_t::string:
      return in_quotes(value.get_ref<const std::string&>());
    default:
      return value.dump();  // a number or a truth value
  }
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMaxBytes = 60;
  std::string shown = "'";
  for (std::size_t at = 0; at < text.size();) {
    if (at >= kMaxBytes) {
      shown += "...";
      break;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Kind::character || step.code_point < 0x20 || step.code_point == 0x7F) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
      ++at;
    } else {
      shown += text.substr(at, step.size);
      at += step.size;
    }
  }
  return shown + "'";
}

nlohmann::json parse_json(std::string_view text, std::string_view file) {
  // The parser would take a NUL for the end and not look at what is behind it.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    fail(ErrorCode::corrupt, "{}: expected JSON, found a NUL at byte {} of {}; fetch the file again", file,
         nul, text.size());
  }
  const auto check_depth = [file](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth <= kMaxDepth) return true;
    fail(ErrorCode::corrupt,
         "{}: expected a tokenizer.json, found JSON nested more than {} deep; use another file", file,
         kMaxDepth);
  };
  try {
    return nlohmann::json::parse(text, check_depth);
  } catch (const nlohmann::json::parse_error& error) {
    // The parser's own message may quote any amount of the file.
    fail(ErrorCode::corrupt, "{}: expected JSON, found a syntax error at byte {} of {}; fetch the file again",
         file, error.byte, text.size());
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::corrupt, "{}: expected JSON, found a number that is out of range; fetch the file again",
         file);
  }
}

JsonNode::JsonNode(const nlohmann::json& value, std::string file, std::string key)
    : value_(&value), file_(std::move(file)), key_(std::move(key)) {}

JsonNode JsonNode::operator[](std::string_view key) const {
  const auto found = object().find(key);
  return {found == value_->end() ? null_value() : *found, file_,
          key_.empty() ? std::string(key) : fmt::format("{}.{}", key_, key)};
}

const std::string& JsonNode::text() const {
  if (!value_->is_string()) fail_corrupt("a string");
  return value_->get_ref<const std::string&>();
}

bool JsonNode::flag() const {
  if (!value_->is_boolean()) fail_corrupt("true or false");
  return value_->get<bool>();
}

const nlohmann::json& JsonNode::object() const {
  if (!value_->is_object()) fail_corrupt("an object");
  return *value_;
}

const nlohmann::json& JsonNode::array() const {
  if (!value_->is_array()) fail_corrupt("a list");
  return *value_;
}

std::vector<JsonNode> JsonNode::items() const {
  std::vector<JsonNode> nodes;
  nodes.reserve(array().size());
  for (const auto& item : *value_) nodes.push_back({item, file_, fmt::format("{}[{}]", key_, nodes.size())});
  return nodes;
}

int JsonNode::index(int limit) const {
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() >= static_cast<std::uint64_t>(limit)) {
    fail_corrupt(fmt::format("a whole number from 0 to {}", limit - 1));
  }
  return value_->get<int>();
}

bool JsonNode::is_null() const { return value_->is_null(); }

bool JsonNode::is_nothing() const { return is_null() || *value_ == false || *value_ == 0 || *value_ == ""; }

void JsonNode::fail_corrupt(std::string_view expected) const {
  fail(ErrorCode::corrupt, "{}: expected {}, found {}; fetch the file again", where(), expected,
       describe(*value_));
}

void JsonNode::fail_unsupported(std::string_view thing, std::string_view known) const {
  fail(ErrorCode::unsupported, "{}: {} {} is not supported; known is {}", where(), thing, describe(*value_),
       known);
}

std::string JsonNode::where() const {
  return key_.empty() ? fmt::format("{}: top level", file_) : fmt::format("{}: key '{}'", file_, key_);
}

}  // namespace tandem::text
