#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem {

/// Element types. f32 and bf16 (and, in the reference backend, f64) are computed with; f16 is read from files
/// and widened exactly; i32 carries token ids, positions and row numbers; u8 is bytes of a file that mean
/// something to whoever put them there; q4 is a weight matrix in raw-q4 (core/q4.hpp), whose elements lie in
/// blocks.
enum class DType : std::uint8_t { f32, bf16, f16, f64, i32, u8, q4 };

/// Bytes of one element; 0 for q4, whose elements are no bytes: storage_bytes knows that too.
constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::f32:
      return 4;
    case DType::bf16:
      return 2;
    case DType::f16:
      return 2;
    case DType::f64:
      return 8;
    case DType::i32:
      return 4;
    case DType::u8:
      return 1;
    case DType::q4:
      return 0;
  }
  return 0;
}

constexpr std::string_view name(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
    case DType::q4:
      return "q4";
  }
  return "?";
}

/// Columns of a block of raw-q4, and bytes of one: 32 nibbles and an f16 scale.
inline constexpr std::int64_t kQ4Block = 32;
inline constexpr std::int64_t kQ4BlockBytes = kQ4Block / 2 + 2;

/// Bytes that `elements` of this type take. REQUIRES: for q4 a multiple of kQ4Block.
constexpr std::int64_t storage_bytes(DType type, std::int64_t elements) {
  return type == DType::q4 ? elements / kQ4Block * kQ4BlockBytes
                           : elements * static_cast<std::int64_t>(size_of(type));
}

/// The upper half of a binary32. Widening is exact (core/numerics.hpp: widen).
struct bf16 {
  std::uint16_t bits;
};

/// IEEE binary16 as it lies in a file.
struct f16 {
  std::uint16_t bits;
};

template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct dtype_of<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct dtype_of<std::int32_t> {
  static constexpr DType value = DType::i32;
};

}  // namespace tandem
