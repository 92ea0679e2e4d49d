#include "tools/byte_size.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace tandem::tools {
namespace {

constexpr double kLimit = 9223372036854775808.0;  // 2^63

std::optional<double> unit_of(std::string_view text) {
  double unit = 1;
  for (const std::string_view name : {"", "KiB", "MiB", "GiB", "TiB"}) {
    if (text == name) return unit;
    unit *= 1024;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> parse_byte_size(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  const std::optional<double> unit = unit_of(suffix);
  // Bytes have no fractions; 1.5 is a unit forgotten.
  if (!unit || (suffix.empty() && value != std::floor(value))) return std::nullopt;
  const double bytes = value * *unit;
  if (!(bytes >= 1) || bytes >= kLimit) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

CLI::Validator byte_size() {
  const auto check = [](const std::string& text) {
    if (parse_byte_size(text)) return std::string();
    return fmt::format("expected a size as in 8GiB, 1.5GiB, 500MiB or bytes, got '{}'", text);
  };
  return CLI::Validator(check, "");
}

}  // namespace tandem::tools
