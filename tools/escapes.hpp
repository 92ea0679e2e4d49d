#pragma once

#include <string>
#include <string_view>

namespace tandem::tools {

/// The text that \n, \t, \r, \\, \", \', \xHH (a byte) and \uXXXX (a character; a pair of surrogates is one)
/// stand for. Throws Error(invalid_argument), which begins with `where`, for any other escape.
std::string unescape(std::string_view text, std::string_view where);

}  // namespace tandem::tools
