#pragma once

#include <string>
#include <string_view>

namespace tandem {

/// `text` as it may be shown to a person or put into JSON: well-formed UTF-8 without anything that a terminal
/// acts on. Bytes that are no UTF-8, control characters (C0, DEL) become \xNN; C1 and what changes the
/// direction or the line of text becomes \uNNNN. Everything else stays as it is.
std::string printable(std::string_view text);

/// The same line by line: line feeds stay.
std::string printable_lines(std::string_view text);

}  // namespace tandem
