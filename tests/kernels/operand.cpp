#include "tests/kernels/operand.hpp"

#include <fmt/format.h>

#include <cstring>

#include "core/numerics.hpp"

namespace tandem::test {

Operand::Operand(std::string name, DType dtype, const Shape& shape, const Layout& layout, Access access)
    : name_(std::move(name)), dtype_(dtype), shape_(shape), layout_(layout), access_(access) {
  const bool spread = layout.head_stride != 0;
  const std::int64_t extent =
      spread ? (shape[1] - 1) * layout.head_stride + shape[2] : shape.elements_from(1);
  row_stride_ = extent + layout.row_gap;
  const std::int64_t places = dtype == DType::q4 ? storage_bytes(dtype, elements()) / place_bytes()
                                                 : (shape[0] - 1) * row_stride_ + extent;
  memory_ = poison(static_cast<std::size_t>(places * place_bytes()));
  writable_.resize(static_cast<std::size_t>(places), false);
  if (access == Access::write) {
    for (std::int64_t i = 0; i < elements(); ++i) mark(i);
  }
}

std::int64_t Operand::place_of(std::int64_t element) const {
  if (dtype_ == DType::q4) {
    const std::int64_t half = kQ4Block / 2;
    return (element / kQ4Block * half + element % half) / place_bytes();
  }
  const std::int64_t width = shape_.elements_from(1), row = element / width, column = element % width;
  if (layout_.head_stride == 0) return row * row_stride_ + column;
  return row * row_stride_ + column / shape_[2] * layout_.head_stride + column % shape_[2];
}

void Operand::set(std::int64_t element, float value) {
  std::byte* at = memory_.data() + place_of(element) * place_bytes();
  if (dtype_ == DType::bf16) {
    const auto upper = static_cast<std::uint16_t>(num::bits_of(value) >> 16);
    std::memcpy(at, &upper, sizeof upper);
  } else {
    std::memcpy(at, &value, sizeof value);
  }
}

void Operand::set_index(std::int64_t element, std::int32_t value) {
  std::memcpy(memory_.data() + place_of(element) * place_bytes(), &value, sizeof value);
}

void Operand::fill(Values kind, Dice& dice) {
  if (dtype_ == DType::q4) return fill_q4(kind, dice);
  for (std::int64_t i = 0; i < elements(); ++i) set(i, draw(kind, dice));
}

void Operand::fill_q4(Values kind, Dice& dice) {
  const std::int64_t level_bytes = elements() / 2;
  for (std::int64_t at = 0; at < level_bytes; at += 8) {
    const std::uint64_t levels = dice.bits();
    std::memcpy(memory_.data() + at, &levels, sizeof levels);
  }
  for (std::int64_t b = 0; b < elements() / kQ4Block; ++b) {
    const f16 scale = draw_f16(kind, dice);
    std::memcpy(memory_.data() + level_bytes + b * 2, &scale.bits, sizeof scale.bits);
  }
}

std::string Operand::text() const {
  std::string text = fmt::format("{} {} {}", name_, tandem::name(dtype_), to_string(shape_));
  if (row_stride_ != shape_.elements_from(1)) text += fmt::format(" rows {} apart", row_stride_);
  if (layout_.head_stride != 0) text += fmt::format(" heads {} apart", layout_.head_stride);
  return text;
}

}  // namespace tandem::test
