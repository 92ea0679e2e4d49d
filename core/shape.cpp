#include "core/shape.hpp"

#include <cassert>

#include "core/error.hpp"

namespace tandem {

Shape::Shape(std::initializer_list<std::int64_t> sizes) {
  assert(sizes.size() <= kMaxRank);
  for (std::int64_t size : sizes) dims[static_cast<std::size_t>(rank++)] = size;
}

Shape Shape::from(std::span<const std::int64_t> sizes) {
  if (sizes.size() > kMaxRank) {
    fail(ErrorCode::unsupported, "a tensor of {} dimensions: at most {} are supported", sizes.size(),
         kMaxRank);
  }
  Shape shape;
  for (std::int64_t size : sizes) shape.dims[static_cast<std::size_t>(shape.rank++)] = size;
  return shape;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank; ++i) text += fmt::format("{}{}", i ? ", " : "", shape[i]);
  return text + "]";
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b, const char* what) {
  std::int64_t result = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &result)) {
    fail(ErrorCode::invalid_argument, "{}: {} * {} is not a size that 63 bits hold", what, a, b);
  }
  return result;
}

std::int64_t checked_add(std::int64_t a, std::int64_t b, const char* what) {
  std::int64_t result = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &result)) {
    fail(ErrorCode::invalid_argument, "{}: {} + {} is not a size that 63 bits hold", what, a, b);
  }
  return result;
}

std::int64_t checked_elements(const Shape& shape, const char* what) {
  std::int64_t n = 1;
  for (int i = 0; i < shape.rank; ++i) n = checked_mul(n, shape[i], what);
  return n;
}

std::string human_bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 6) value /= 1024, ++unit;
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

}  // namespace tandem
