#pragma once

#include <string>
#include <utility>

#include "tests/kernels/case.hpp"

namespace tandem::test {

/// How large the cases are.
enum class Scale {
  small,    ///< many odd shapes, quick in the plainest loops
  threads,  ///< large enough for every operator to be cut over threads
};

/// Collects the operands of one random case. Every choice comes from the seed.
class CaseBuilder {
 public:
  CaseBuilder(OpKind kind, std::uint64_t seed, Scale scale);

  Dice& dice() { return dice_; }
  bool large() const { return scale_ == Scale::threads; }
  /// Of `count` forms that an operator has: seeds in a row take them in turn.
  std::uint64_t form(std::uint64_t count) const { return case_.seed % count; }

  /// A width in [1, most]: usually one at which vectors, lanes or blocks begin and end.
  std::int64_t length(std::int64_t most);
  double eps() { return dice_.pick({1e-6, 1e-5, 1e-3}); }
  /// A multiple of 32, as the columns of a q4 matrix are.
  std::int64_t q4_columns(std::int64_t most);
  /// Like the model's, 1 / sqrt(width).
  double scale_of(std::int64_t width) const;

  /// Each returns the operand's index. Rows may have gaps unless it says "packed".
  std::size_t activation(std::string name, const Shape& shape);
  /// Heads further apart than they are wide, at least sometimes.
  std::size_t spread_heads(std::string name, const Shape& shape, std::int64_t head_stride);
  std::size_t packed(std::string name, DType dtype, const Shape& shape);
  /// q4; 16-byte aligned.
  std::size_t q4_matrix(std::string name, const Shape& shape);
  /// f32 or bf16.
  std::size_t matrix(std::string name, const Shape& shape);
  /// i32, each in [0, limit).
  std::size_t indices(std::string name, std::int64_t count, std::int64_t limit);
  std::size_t output(std::string name, const Shape& shape);
  std::size_t packed_output(std::string name, const Shape& shape);
  /// Filled like an activation, and all of it is written.
  std::size_t updated(std::string name, const Shape& shape);
  /// Whatever else; not filled.
  std::size_t add(Operand operand);

  Operand& operator[](std::size_t operand) { return case_.operands[operand]; }
  Values values();
  void note(const std::string& text) { case_.notes += text; }

  Case make(std::function<void(const Bound&, const Submit&)> with_op);

 private:
  Layout packed_layout();
  Layout rows_layout();

  Dice dice_;
  Scale scale_;
  Values special_;
  Case case_;
};

/// Rows of a ragged batch, one range a sequence.
std::vector<RowRange> ragged_batch(CaseBuilder& builder);
std::int64_t total_rows(const std::vector<RowRange>& ranges);

}  // namespace tandem::test
