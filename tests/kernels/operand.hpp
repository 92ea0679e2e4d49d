#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "tests/kernels/values.hpp"

namespace tandem::test {

/// What a kernel may do to an operand's elements.
enum class Access {
  read,
  write,   ///< all of them, none read before
  update,  ///< some or all of them: mark() says which
};

/// How an operand lies in memory, in places: elements, or the half words of a q4 matrix.
struct Layout {
  std::int64_t offset = 0;       ///< of the first place from an aligned address
  std::int64_t row_gap = 0;      ///< between the end of a row and the next
  std::int64_t head_stride = 0;  ///< of [N, heads, D]: from one head to the next; 0 means D
};

/// One tensor of a case as it lies in host memory before the operator runs: elements and the gaps between
/// them. Memory is counted in places: an element, or of a q4 matrix, whose elements are no bytes, two bytes:
/// four levels or a scale.
class Operand {
 public:
  /// Everything is poison until filled.
  Operand(std::string name, DType dtype, const Shape& shape, const Layout& layout, Access access);

  const std::string& name() const { return name_; }
  Access access() const { return access_; }
  DType dtype() const { return dtype_; }
  std::int64_t offset() const { return layout_.offset; }
  std::int64_t elements() const { return shape_.elements(); }
  std::int64_t place_bytes() const {
    return dtype_ == DType::q4 ? 2 : static_cast<std::int64_t>(size_of(dtype_));
  }
  const std::vector<std::byte>& memory() const { return memory_; }

  /// Place in memory() of an element (of q4: of its level) that is counted through the shape.
  std::int64_t place_of(std::int64_t element) const;
  /// True where the operator may write. A gap never is.
  bool writable(std::int64_t place) const { return writable_[static_cast<std::size_t>(place)]; }
  /// For Access::update: the operator writes this element.
  void mark(std::int64_t element) { writable_[static_cast<std::size_t>(place_of(element))] = true; }

  /// Not for q4.
  void set(std::int64_t element, float value);
  void set_index(std::int64_t element, std::int32_t value);
  /// A q4 matrix gets levels of every kind, and scales of this one.
  void fill(Values kind, Dice& dice);

  /// The tensor over the same layout at `first`, any backend's memory.
  Tensor at(void* first) const { return {first, dtype_, shape_, row_stride_}; }

  /// "x f32 [3, 4] rows 7 apart".
  std::string text() const;

 private:
  void fill_q4(Values kind, Dice& dice);

  std::string name_;
  DType dtype_;
  Shape shape_;
  Layout layout_;
  Access access_;
  std::int64_t row_stride_ = 0;
  std::vector<std::byte> memory_;
  std::vector<bool> writable_;  ///< by place
};

}  // namespace tandem::test
