#include "core/text/byte_level.hpp"

#include <array>
#include <cstddef>

#include "core/text/utf8.hpp"

namespace tandem::text {
namespace {

constexpr std::size_t kFirstSubstitute = 0x100;
constexpr std::size_t kSubstitutes = 68;

constexpr bool prints(std::size_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  std::size_t next = kFirstSubstitute;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    characters[byte] = static_cast<char32_t>(prints(byte) ? byte : next++);
  }
  return characters;
}

constexpr std::array<char32_t, 256> kCharacters = make_characters();

/// The inverse; -1 for a character below the end of the alphabet that is not in it (a space, say).
constexpr std::array<int, kFirstSubstitute + kSubstitutes> make_bytes() {
  std::array<int, kFirstSubstitute + kSubstitutes> bytes{};
  bytes.fill(-1);
  for (std::size_t byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = static_cast<int>(byte);
  return bytes;
}

constexpr std::array<int, kFirstSubstitute + kSubstitutes> kBytes = make_bytes();

}  // namespace

char32_t byte_level_character(std::uint8_t byte) { return kCharacters[byte]; }

std::optional<std::string> byte_level_bytes(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const Utf8Step step = utf8_step(token.substr(at));
    if (step.code_point >= kBytes.size() || kBytes[step.code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[step.code_point]));
    at += step.size;
  }
  return bytes;
}

}  // namespace tandem::text
