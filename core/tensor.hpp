#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "core/dtype.hpp"
#include "core/shape.hpp"

namespace tandem {

/// A view of elements in some backend's memory: rows along dimension 0, `row_stride` elements apart; within a
/// row the elements are contiguous. (A q4 matrix is always whole and read through core/q4.hpp: rows, slices
/// and columns of one cannot be viewed.) Owns nothing. Whether `data` may be dereferenced on the host is the
/// backend's business.
template <class Void>
struct BasicTensor {
  Void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  std::int64_t row_stride = 0;

  BasicTensor() = default;
  BasicTensor(Void* data_, DType dtype_, Shape shape_)
      : data(data_),
        dtype(dtype_),
        shape(shape_),
        row_stride(shape_.rank > 0 ? shape_.elements_from(1) : 1) {}
  BasicTensor(Void* data_, DType dtype_, Shape shape_, std::int64_t row_stride_)
      : data(data_), dtype(dtype_), shape(shape_), row_stride(row_stride_) {}

  /// A mutable view may be read.
  operator BasicTensor<const void>() const requires(!std::is_const_v<Void>) {
    return {data, dtype, shape, row_stride};
  }

  /// False for an optional operand that was left out.
  explicit operator bool() const { return shape.rank != 0; }

  template <class T>
  using Element = std::conditional_t<std::is_const_v<Void>, const T, T>;

  /// First element of row i. REQUIRES: T is the element type.
  template <class T>
  [[gnu::always_inline]] Element<T>* row(std::int64_t i) const {
    return static_cast<Element<T>*>(data) + i * row_stride;
  }

  std::int64_t rows() const { return shape[0]; }
  std::int64_t row_elements() const { return shape.elements_from(1); }
  bool contiguous() const { return shape.rank == 0 || row_stride == row_elements() || rows() == 1; }
  /// Bytes of the elements, without gaps between rows.
  std::int64_t bytes() const { return storage_bytes(dtype, shape.elements()); }

  /// Rows [first, first + count).
  BasicTensor slice_rows(std::int64_t first, std::int64_t count) const {
    BasicTensor t = *this;
    t.data = offset(first * row_stride);
    t.shape.dims[0] = count;
    return t;
  }

  /// Elements [first, first + count) of every row, as [rows, count].
  BasicTensor columns(std::int64_t first, std::int64_t count) const {
    return {offset(first), dtype, Shape{rows(), count}, row_stride};
  }

  /// The same elements with each row seen as `inner` sizes. REQUIRES: their product is row_elements().
  BasicTensor view_rows(std::int64_t a, std::int64_t b) const {
    return {data, dtype, Shape{rows(), a, b}, row_stride};
  }

 private:
  Void* offset(std::int64_t elements) const {
    using Byte = Element<unsigned char>;
    return data == nullptr ? nullptr
                           : static_cast<Byte*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
  }
};

using Tensor = BasicTensor<void>;
using ConstTensor = BasicTensor<const void>;

/// A tensor in host memory and what keeps that memory alive (a file mapping, usually).
struct HostTensor {
  ConstTensor view;
  std::shared_ptr<const void> owner;
};

}  // namespace tandem
