#include "tools/escapes.hpp"

#include <charconv>
#include <optional>

#include "core/error.hpp"
#include "core/text/utf8.hpp"

namespace tandem::tools {
namespace {

constexpr std::string_view kSimple = "nrt\\\"'";
constexpr std::string_view kMeaning = "\n\r\t\\\"'";
constexpr char32_t kHighSurrogate = 0xD800, kLowSurrogate = 0xDC00, kAfterSurrogates = 0xE000;

/// The number of exactly so many hexadecimal digits at the start of `text`.
std::optional<std::uint32_t> hex(std::string_view text, std::size_t digits) {
  if (text.size() < digits) return {};
  std::uint32_t value = 0;
  const char* const end = text.data() + digits;
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc() || stop != end) return {};
  return value;
}

bool between(char32_t value, char32_t first, char32_t after) { return value >= first && value < after; }

/// One escape, which `rest` begins with after its backslash: appends what it means. Returns how many bytes
/// it took, 0 for one that has no meaning.
std::size_t append_escape(std::string& out, std::string_view rest) {
  if (rest.empty()) return 0;
  if (const std::size_t simple = kSimple.find(rest.front()); simple != std::string_view::npos) {
    out += kMeaning[simple];
    return 1;
  }
  if (rest.front() == 'x') {
    const auto byte = hex(rest.substr(1), 2);
    if (!byte) return 0;
    out += static_cast<char>(*byte);
    return 3;
  }
  if (rest.front() != 'u') return 0;
  const auto first = hex(rest.substr(1), 4);
  if (!first || between(*first, kLowSurrogate, kAfterSurrogates)) return 0;
  if (!between(*first, kHighSurrogate, kLowSurrogate)) {
    text::append_utf8(out, *first);
    return 5;
  }
  if (!rest.substr(5).starts_with("\\u")) return 0;
  const auto second = hex(rest.substr(7), 4);
  if (!second || !between(*second, kLowSurrogate, kAfterSurrogates)) return 0;
  text::append_utf8(out, 0x10000 + ((*first - kHighSurrogate) << 10) + (*second - kLowSurrogate));
  return 11;
}

}  // namespace

std::string unescape(std::string_view text, std::string_view where) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '\\') {
      out += text[i++];
      continue;
    }
    const std::size_t taken = append_escape(out, text.substr(i + 1));
    if (taken == 0) {
      fail(ErrorCode::invalid_argument,
           "{}: the escape at byte {} has no meaning; expected \\n, \\t, \\r, \\\\, \\\", \\', \\xHH or "
           "\\uXXXX",
           where, i);
    }
    i += 1 + taken;
  }
  return out;
}

}  // namespace tandem::tools
