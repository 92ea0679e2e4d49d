#include "tests/kernels/case_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem::test {

CaseBuilder::CaseBuilder(OpKind kind, std::uint64_t seed, Scale scale)
    : dice_(tandem::name(kind), seed), scale_(scale), special_(static_cast<Values>(seed % kValueKinds)) {
  case_.kind = kind;
  case_.seed = seed;
}

std::int64_t CaseBuilder::length(std::int64_t most) {
  if (dice_.one_in(4)) return dice_.between(1, most);
  const std::int64_t edge = dice_.pick<std::int64_t>(
      {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 192, 224, 255, 256, 257, 1000});
  return edge <= most ? edge : length(most);
}

std::int64_t CaseBuilder::q4_columns(std::int64_t most) {
  if (dice_.one_in(4)) return kQ4Block * dice_.between(1, most / kQ4Block);
  const std::int64_t edge =
      dice_.pick<std::int64_t>({32, 64, 96, 224, 256, 480, 512, 544, 992, 1024, 1056, 2048, 2080, 5120});
  return edge <= most ? edge : q4_columns(most);
}

double CaseBuilder::scale_of(std::int64_t width) const { return 1.0 / std::sqrt(static_cast<double>(width)); }

/// Half of the operands of a case are ordinary, so that special values meet ordinary ones too.
Values CaseBuilder::values() { return dice_.one_in(2) ? special_ : Values::ordinary; }

Layout CaseBuilder::packed_layout() { return {dice_.one_in(2) ? 0 : dice_.between(1, 20), 0, 0}; }

Layout CaseBuilder::rows_layout() {
  Layout layout = packed_layout();
  layout.row_gap = dice_.one_in(2) ? 0 : dice_.between(1, 40);
  return layout;
}

std::size_t CaseBuilder::add(Operand operand) {
  case_.operands.push_back(std::move(operand));
  return case_.operands.size() - 1;
}

std::size_t CaseBuilder::activation(std::string name, const Shape& shape) {
  Operand operand(std::move(name), DType::f32, shape, rows_layout(), Access::read);
  operand.fill(values(), dice_);
  return add(std::move(operand));
}

std::size_t CaseBuilder::spread_heads(std::string name, const Shape& shape, std::int64_t head_stride) {
  Layout layout = rows_layout();
  layout.head_stride = head_stride;
  Operand operand(std::move(name), DType::f32, shape, layout, Access::read);
  operand.fill(values(), dice_);
  return add(std::move(operand));
}

std::size_t CaseBuilder::packed(std::string name, DType dtype, const Shape& shape) {
  Operand operand(std::move(name), dtype, shape, packed_layout(), Access::read);
  operand.fill(values(), dice_);
  return add(std::move(operand));
}

std::size_t CaseBuilder::q4_matrix(std::string name, const Shape& shape) {
  const Layout layout{dice_.one_in(2) ? 0 : 8 * dice_.between(1, 4), 0, 0};
  Operand operand(std::move(name), DType::q4, shape, layout, Access::read);
  operand.fill(values(), dice_);
  return add(std::move(operand));
}

std::size_t CaseBuilder::matrix(std::string name, const Shape& shape) {
  return packed(std::move(name), dice_.one_in(2) ? DType::f32 : DType::bf16, shape);
}

std::size_t CaseBuilder::indices(std::string name, std::int64_t count, std::int64_t limit) {
  Operand operand(std::move(name), DType::i32, Shape{count}, packed_layout(), Access::read);
  for (std::int64_t i = 0; i < count; ++i) {
    operand.set_index(i, static_cast<std::int32_t>(dice_.between(0, limit - 1)));
  }
  return add(std::move(operand));
}

std::size_t CaseBuilder::output(std::string name, const Shape& shape) {
  return add(Operand(std::move(name), DType::f32, shape, rows_layout(), Access::write));
}

std::size_t CaseBuilder::packed_output(std::string name, const Shape& shape) {
  return add(Operand(std::move(name), DType::f32, shape, packed_layout(), Access::write));
}

std::size_t CaseBuilder::updated(std::string name, const Shape& shape) {
  Operand operand(std::move(name), DType::f32, shape, rows_layout(), Access::update);
  operand.fill(values(), dice_);
  for (std::int64_t i = 0; i < operand.elements(); ++i) operand.mark(i);
  return add(std::move(operand));
}

Case CaseBuilder::make(std::function<void(const Bound&, const Submit&)> with_op) {
  case_.with_op = std::move(with_op);
  return std::move(case_);
}

std::vector<RowRange> ragged_batch(CaseBuilder& builder) {
  std::vector<RowRange> ranges;
  std::int64_t next = 0;
  const std::int64_t sequences = builder.large() ? 4 : builder.dice().between(1, 5);
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t rows = builder.large() ? 7 + i : builder.dice().between(1, 9);
    ranges.push_back({next, rows});
    builder.note(fmt::format("{}{}", i == 0 ? "segments " : "+", rows));
    next += rows;
  }
  return ranges;
}

std::int64_t total_rows(const std::vector<RowRange>& ranges) {
  return ranges.back().first_row + ranges.back().rows;
}

}  // namespace tandem::test
