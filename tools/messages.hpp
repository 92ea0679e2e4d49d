#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tandem::tools {

/// A line on standard error, printable. Whether anybody can read it changes nothing.
void tell(std::string_view line);

/// Writes to standard output, as it is, and makes sure that it arrived. Throws Error(io).
void print(std::string_view text);

/// The same for lines that people read: everything but line feeds is made printable.
void print_report(std::string_view text);

/// JSON that a terminal can show. Strings that are no UTF-8 (names of files need not be) are made printable.
std::string json_text(const nlohmann::json& value, int indent = -1);

}  // namespace tandem::tools
