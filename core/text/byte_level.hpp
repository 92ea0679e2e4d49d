#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::text {

/// The alphabet of byte-level BPE, from GPT-2: each byte has a printable character. Those that print stand
/// for themselves as Latin-1; the other 68 are U+0100, U+0101, ... in order of value, so that a space is
/// U+0120.
char32_t byte_level_character(std::uint8_t byte);

/// The bytes that a token of a vocabulary file stands for, or nothing if it has a character outside the
/// alphabet. REQUIRES: token is well-formed UTF-8.
std::optional<std::string> byte_level_bytes(std::string_view token);

}  // namespace tandem::text
