#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "backends/reference/reference_backend.hpp"
#include "core/ops.hpp"
#include "core/random.hpp"
#include "core/tensor.hpp"

namespace tandem::test {

/// Elements in host memory, with `gap` more after each row. The gaps of float64 arrays hold NaN: a kernel
/// that reads one shows it in its result, and one that writes one is caught by gaps_intact().
template <class T>
class Array {
 public:
  explicit Array(Shape shape, std::int64_t gap = 0)
      : shape_(shape), row_stride_(shape.elements_from(1) + gap), data_(size_of_all(), filler()) {
    for (std::int64_t i = 0; i < shape[0]; ++i) std::fill_n(row(i), shape.elements_from(1), T{});
  }

  /// An array of rank 1.
  Array(std::initializer_list<T> values) : Array(Shape{static_cast<std::int64_t>(values.size())}) {
    std::copy(values.begin(), values.end(), data_.begin());
  }

  Tensor view() { return {data_.data(), dtype_of<T>::value, shape_, row_stride_}; }
  ConstTensor view() const { return {data_.data(), dtype_of<T>::value, shape_, row_stride_}; }
  Tensor view(const RowRange& range) { return view().slice_rows(range.first_row, range.rows); }
  ConstTensor view(const RowRange& range) const { return view().slice_rows(range.first_row, range.rows); }

  const Shape& shape() const { return shape_; }
  std::int64_t rows() const { return shape_[0]; }
  T* row(std::int64_t i) { return data_.data() + i * row_stride_; }
  const T* row(std::int64_t i) const { return data_.data() + i * row_stride_; }
  /// Element j of row i, counted through the row's inner dimensions.
  T& at(std::int64_t i, std::int64_t j) { return row(i)[j]; }
  const T& at(std::int64_t i, std::int64_t j) const { return row(i)[j]; }
  /// Element j of head h of row i of [N, heads, D].
  const T& at(std::int64_t i, std::int64_t h, std::int64_t j) const { return row(i)[h * shape_[2] + j]; }

  /// The elements of rows [first, first + count), without gaps.
  std::vector<T> values(std::int64_t first, std::int64_t count) const {
    std::vector<T> all;
    for (std::int64_t i = first; i < first + count; ++i) {
      all.insert(all.end(), row(i), row(i) + shape_.elements_from(1));
    }
    return all;
  }
  std::vector<T> values() const { return values(0, rows()); }

  bool gaps_intact() const {
    for (std::int64_t i = 0; i < rows(); ++i) {
      for (std::int64_t j = shape_.elements_from(1); j < row_stride_; ++j) {
        if (!std::isnan(row(i)[j])) return false;
      }
    }
    return true;
  }

 private:
  std::size_t size_of_all() const { return static_cast<std::size_t>(shape_[0] * row_stride_); }
  static T filler() {
    if constexpr (std::is_same_v<T, double>) return std::numeric_limits<double>::quiet_NaN();
    return T{};
  }

  Shape shape_;
  std::int64_t row_stride_;
  std::vector<T> data_;
};

/// normal(i) * scale + shift of the stream `name`: float64 for activations and states.
inline Array<double> random_array(std::string_view name, Shape shape, double scale = 1.0, double shift = 0.0,
                                  std::int64_t gap = 0) {
  const CounterRandom random(name, /*seed=*/1);
  Array<double> array(shape, gap);
  std::uint64_t n = 0;
  for (std::int64_t i = 0; i < array.rows(); ++i) {
    for (std::int64_t j = 0; j < shape.elements_from(1); ++j)
      array.at(i, j) = random.normal(n++) * scale + shift;
  }
  return array;
}

/// The same rounded to float32, for weights.
inline Array<float> random_weight(std::string_view name, Shape shape, double scale = 1.0,
                                  double shift = 0.0) {
  const Array<double> wide = random_array(name, shape, scale, shift);
  Array<float> array(shape);
  for (std::int64_t i = 0; i < array.rows(); ++i) {
    for (std::int64_t j = 0; j < shape.elements_from(1); ++j)
      array.at(i, j) = static_cast<float>(wide.at(i, j));
  }
  return array;
}

inline bf16 truncate_to_bf16(float x) {
  return {static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16)};
}

/// max |found - expected| / max |expected|; infinite if sizes differ or a NaN is met.
template <class Found, class Expected>
double relative_difference(const Found& found, const Expected& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::size(found) != std::size(expected)) return kInfinity;
  double difference = 0;
  double magnitude = 0;
  for (std::size_t i = 0; i < std::size(found); ++i) {
    const double d = std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    if (std::isnan(d)) return kInfinity;
    difference = std::max(difference, d);
    magnitude = std::max(magnitude, std::abs(static_cast<double>(expected[i])));
  }
  return difference == 0 ? 0 : difference / magnitude;
}

/// Two correct float64 evaluations of one of these formulas over the sizes here, differently ordered.
inline constexpr double kRounding = 1e-13;

/// A backend for each test, and the promise that the variant that ran is the one there is.
class ReferenceTest : public testing::Test {
 protected:
  void submit(const Op& op) { EXPECT_EQ(backend_->submit(op), "float64"); }

  std::unique_ptr<Backend> backend_ = make_reference_backend();
};

}  // namespace tandem::test
