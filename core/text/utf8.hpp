#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::text {

/// What stands at the start of some bytes.
enum class Utf8Kind {
  character,   ///< one whole, well-formed character
  ill_formed,  ///< bytes that no continuation can mend (a stray byte, an overlong form, a surrogate, ...)
  truncated,   ///< the well-formed beginning of a character, cut off by the end of the bytes
};

/// `size` bytes (1 to 4) are of kind `kind`. For ill_formed and truncated they are the maximal subpart of the
/// Unicode standard (section 3.9, table 3-7): what one U+FFFD stands for. `code_point` is set for a character
/// only.
struct Utf8Step {
  Utf8Kind kind;
  std::size_t size;
  char32_t code_point;
};

/// REQUIRES: bytes is not empty.
Utf8Step utf8_step(std::string_view bytes);

/// Offset in bytes of the first thing that is not a whole character; nothing for well-formed UTF-8.
std::optional<std::size_t> first_ill_formed(std::string_view bytes);

void append_utf8(std::string& out, char32_t code_point);

/// Appends `bytes` to `out` with U+FFFD for each ill-formed sequence, up to a truncated character at the end
/// if there is one. Returns how many bytes were used up: all of them, or all but the 1 to 3 of that
/// beginning.
std::size_t append_whole_characters(std::string& out, std::string_view bytes);

/// As append_whole_characters, but a truncated character at the end becomes U+FFFD as well.
void append_lossy(std::string& out, std::string_view bytes);

}  // namespace tandem::text
