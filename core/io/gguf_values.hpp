#pragma once

#include <bit>
#include <cstring>

#include "core/io/gguf.hpp"

/// Values of a GGUF file's metadata as they lie in it. Stateless, safe to use from several threads.
namespace tandem {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie in the file");

/// The number that lies at `from`, aligned or not.
template <class T>
T load_gguf_number(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Bytes of a value; 0 for what has no fixed size.
std::int64_t size_of_gguf_scalar(GgufType type);

/// The value that lies at `from`. REQUIRES: neither string nor array.
GgufValue load_gguf_scalar(GgufType type, const std::byte* from);

/// The elements of an array of strings, or of whole numbers (nothing if one does not fit in 63 bits and a
/// sign). REQUIRES: an array of a checked header, with elements of that kind.
std::vector<std::string_view> gguf_strings(const GgufArray& array);
std::optional<std::vector<std::int64_t>> gguf_integers(const GgufArray& array);

}  // namespace tandem
