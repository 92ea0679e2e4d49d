#include "tools/messages.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/text/printable.hpp"
#include "core/text/utf8.hpp"

namespace tandem::tools {
namespace {

using nlohmann::json;

/// The name or text itself when it is UTF-8: JSON has escapes of its own.
std::string well_formed(const std::string& text) {
  return text::first_ill_formed(text) ? printable(text) : text;
}

json well_formed(const json& value) {
  if (value.is_string()) return well_formed(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  json result = value.is_array() ? json::array() : json::object();
  for (const auto& [key, item] : value.items()) {
    if (value.is_array()) {
      result.push_back(well_formed(item));
    } else {
      result[well_formed(key)] = well_formed(item);
    }
  }
  return result;
}

/// DEL and C1 stand for themselves in JSON, and a terminal acts on them.
std::string without_controls(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const auto next = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1]) : 0;
    if (byte == 0x7F) {
      result += "\\u007f";
    } else if (byte == 0xC2 && next >= 0x80 && next <= 0x9F) {
      result += fmt::format("\\u{:04x}", next);
      ++at;
    } else {
      result += text[at];
    }
  }
  return result;
}

}  // namespace

void tell(std::string_view line) {
  const std::string text = printable(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    fail(ErrorCode::io, "standard output: cannot write; is the disk full or the reader gone?");
  }
}

void print_report(std::string_view text) { print(printable_lines(text)); }

std::string json_text(const json& value, int indent) {
  return without_controls(well_formed(value).dump(indent));
}

}  // namespace tandem::tools
