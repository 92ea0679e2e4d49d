#pragma once

#include <string>
#include <string_view>

namespace tandem::text {

/// `text` in Unicode's normalisation form C, in time n log n at worst, whatever the text.
/// REQUIRES: text is well-formed UTF-8. Throws invalid_argument for text that utf8proc refuses.
std::string nfc(std::string_view text);

/// Unicode's White_Space property.
bool is_white_space(char32_t code_point);

}  // namespace tandem::text
