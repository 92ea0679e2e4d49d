#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem {

/// Element types. f32 and bf16 (and, in the reference backend, f64) are computed with; f16 is read from files
/// and widened exactly; i32 carries token ids, positions and row numbers.
enum class DType : std::uint8_t { f32, bf16, f16, f64, i32 };

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
  }
  return "?";
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
