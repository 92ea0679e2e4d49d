#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace tandem {

/// Sizes of up to four dimensions, outermost first. A Shape of rank 0 has one element.
struct Shape {
  static constexpr int kMaxRank = 4;

  std::array<std::int64_t, kMaxRank> dims{};
  int rank = 0;

  Shape() = default;
  /// REQUIRES: at most kMaxRank sizes.
  Shape(std::initializer_list<std::int64_t> sizes);

  /// As above, from data that was read; throws unsupported for more than kMaxRank sizes.
  static Shape from(std::span<const std::int64_t> sizes);

  std::int64_t operator[](int i) const { return dims[static_cast<std::size_t>(i)]; }
  bool operator==(const Shape&) const = default;

  /// Product of all sizes, of dims[first..]. Use checked_elements for sizes that come from a file.
  std::int64_t elements() const { return elements_from(0); }
  std::int64_t elements_from(int first) const {
    std::int64_t n = 1;
    for (int i = first; i < rank; ++i) n *= dims[static_cast<std::size_t>(i)];
    return n;
  }
};

/// "[3, 4]".
std::string to_string(const Shape& shape);

/// a * b and a + b for sizes that are not trusted yet. Throws Error(invalid_argument) naming `what` on a
/// negative operand or on overflow of 63 bits.
std::int64_t checked_mul(std::int64_t a, std::int64_t b, const char* what);
std::int64_t checked_add(std::int64_t a, std::int64_t b, const char* what);

/// Number of elements of an untrusted shape; throws like checked_mul.
std::int64_t checked_elements(const Shape& shape, const char* what);

/// "1.50 GiB", for messages and tables.
std::string human_bytes(std::uint64_t bytes);

}  // namespace tandem
