#pragma once

#include <cstdlib>
#include <vector>

#include "core/ops.hpp"

namespace tandem::test {

/// One operator of each kind with arguments that are right, over no memory: 6 tokens of two sequences,
/// strided where that is allowed. What the operators point to belongs to this object.
class ValidOps {
 public:
  ValidOps();
  ValidOps(const ValidOps&) = delete;

  const std::vector<Op>& all() const { return all_; }

  /// The operator of a kind.
  template <class Args>
  const Args& get() const {
    for (const Op& op : all_) {
      if (const auto* args = std::get_if<Args>(&op)) return *args;
    }
    std::abort();
  }

 private:
  std::vector<ConvSegment> conv_;
  std::vector<DeltaSegment> delta_;
  std::vector<void*> pages_;
  std::vector<KvSegment> kv_;
  std::vector<Op> all_;
};

/// One tensor of an operator, to be changed in place.
struct Operand {
  const char* name;
  DType& dtype;
  Shape& shape;
  std::int64_t& row_stride;
  bool packed = false;    ///< gaps between rows are refused
  bool any_rows = false;  ///< a table to pick rows from: nothing else tells their number
};

/// All tensors of an operator but those of its segments.
std::vector<Operand> operands(Op& op);

}  // namespace tandem::test
