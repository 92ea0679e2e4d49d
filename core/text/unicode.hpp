#pragma once

#include <string>
#include <string_view>

namespace tandem::text {

/// `text` in normalisation form C of Unicode 9.0.0, in time n log n at worst, whatever the text. The version
/// is that of the Python package `tokenizers`: models have seen no other form. REQUIRES: text is well-formed
/// UTF-8.
std::string nfc(std::string_view text);

/// Unicode's White_Space property.
bool is_white_space(char32_t code_point);

}  // namespace tandem::text
