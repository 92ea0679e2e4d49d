#include "core/text/printable.hpp"

#include <fmt/format.h>

#include "core/text/utf8.hpp"

namespace tandem {
namespace {

bool is_between(char32_t c, char32_t first, char32_t last) { return first <= c && c <= last; }

/// C1, separators of lines and paragraphs, and the marks that reverse what is shown.
bool is_active(char32_t c) {
  return is_between(c, 0x80, 0x9F) || c == 0x61C || is_between(c, 0x200E, 0x200F) ||
         is_between(c, 0x2028, 0x202E) || is_between(c, 0x2066, 0x2069);
}

std::string escaped(std::string_view text, bool keep_lines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const text::Utf8Step step = text::utf8_step(text);
    const std::string_view bytes = text.substr(0, step.size);
    text.remove_prefix(step.size);
    const bool is_control =
        step.kind != text::Utf8Kind::character || step.code_point < 0x20 || step.code_point == 0x7F;
    if (keep_lines && bytes == "\n") {
      result += '\n';
    } else if (is_control) {
      for (const char byte : bytes) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    } else if (is_active(step.code_point)) {
      result += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(step.code_point));
    } else {
      result += bytes;
    }
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, false); }

std::string printable_lines(std::string_view text) { return escaped(text, true); }

}  // namespace tandem
