#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/dtype.hpp"

/// The element types of GGML, as they lie in a GGUF file: blocks of neighbouring elements of a row, little
/// endian. All functions are stateless and safe to use from several threads, also on parts of one tensor.
namespace tandem {

struct GgmlType {
  std::uint32_t id;  ///< the file's number
  std::string_view name;
  std::int64_t block_elements;
  std::int64_t block_bytes;
};

/// nullptr for a number that is not known. Types whose values cannot be read are known too, for their size.
const GgmlType* find_ggml_type(std::uint32_t id);

/// Whether dequantize_blocks reads it: F32, F16, BF16, Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K.
bool is_readable(const GgmlType& type);
/// Those names, for messages.
std::string_view readable_ggml_types();

/// The element type of this library that lies in memory in the same way, if there is one.
std::optional<DType> plain_dtype(const GgmlType& type);

/// Writes the elements of blocks [begin, end) of a tensor as f32 to `to`, where the first element of block
/// `begin` goes. The arithmetic is that of the Python package gguf (gguf.quants.dequantize), to the last bit:
/// a product of the scales first, then times the level, then less the minimum, each rounded.
/// REQUIRES: is_readable(type).
void dequantize_blocks(const GgmlType& type, const void* blocks, std::int64_t begin, std::int64_t end,
                       float* to);

/// Copies blocks [begin, end) of the `count` blocks of a Q4_0 tensor to their places in the raw-q4 tensor of
/// the same rows (core/q4.hpp), without loss: scales and levels are moved apart, nothing else. `to` is the
/// memory of the whole tensor.
void repack_q4_0(const void* blocks, std::int64_t count, std::int64_t begin, std::int64_t end, void* to);

}  // namespace tandem
