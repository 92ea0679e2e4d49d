#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/ops.hpp"
#include "tests/kernels/operand.hpp"

namespace tandem::test {

/// The operands of a case in some backend's memory.
class Bound {
 public:
  Bound(const std::vector<Operand>& operands, std::vector<void*> first)
      : operands_(operands), first_(std::move(first)) {}

  Tensor operator[](std::size_t operand) const { return operands_[operand].at(first_[operand]); }

 private:
  const std::vector<Operand>& operands_;
  std::vector<void*> first_;
};

using Submit = std::function<void(const Op&)>;

/// One operator with arguments, ready for any backend.
struct Case {
  OpKind kind{};
  std::uint64_t seed = 0;
  std::string notes;  ///< what the operands' shapes do not tell
  std::vector<Operand> operands;
  /// Makes the operator over bound operands and hands it to `submit`; arrays inside it live until that
  /// returns.
  std::function<void(const Bound& bound, const Submit& submit)> with_op;

  /// Operator, seed, shapes: what someone needs to see the failure again.
  std::string text() const;
};

}  // namespace tandem::test
