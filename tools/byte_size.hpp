#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::tools {

/// "8GiB", "1.5GiB", "500MiB", "64KiB", "2TiB" or plain bytes ("1000000"), rounded down; nothing for anything
/// else, for less than a byte, or past 63 bits.
std::optional<std::uint64_t> parse_byte_size(std::string_view text);

/// Checks the text of a size option.
CLI::Validator byte_size();

}  // namespace tandem::tools
