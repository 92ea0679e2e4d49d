#pragma once

#include "core/io/gguf.hpp"

namespace tandem {

/// What the header of a GGUF file says. Views point into the bytes that were read.
struct GgufHeader {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::map<std::string, GgufTensorInfo, std::less<>> tensors;
  std::int64_t data_begin = 0;  ///< bytes from the start of the file
};

inline constexpr std::string_view kGgufMagic = "GGUF";

/// Reads and checks the header of a file of these bytes; `where` begins the messages. Throws as GgufFile's
/// constructor.
GgufHeader read_gguf_header(std::span<const std::byte> bytes, const std::string& where);

}  // namespace tandem
