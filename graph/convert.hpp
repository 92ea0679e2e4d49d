#pragma once

#include <memory>

#include "core/q4_quantizer.hpp"
#include "core/threads.hpp"
#include "graph/graph.hpp"
#include "graph/weight_data.hpp"

namespace tandem {

/// Brings weights into what their gears want. Not thread-safe; makes threads of its own, one for each
/// processor, when there is something to quantise.
class WeightConverter {
 public:
  /// `data` as the graph needs the weight: the same memory, or the same recipe of random values, where the
  /// type is right already, else made in host memory now. f32, bf16 and f16 are widened exactly, rounded to
  /// the nearest bf16 (ties to even), or quantised; vectors become f32. Adds to error() what quantising lost.
  ///
  /// Throws Error(mismatch) naming the weight for another shape or type, and for 4 bits that are asked for as
  /// anything else: what they were made from is gone. Error(out_of_memory); Error(invalid_argument) for
  /// values that 4 bits cannot hold.
  WeightData convert(const Weight& weight, const WeightData& data);

  /// Of the last weight, if it was quantised.
  const Q4Error& error() const { return error_; }

 private:
  HostTensor quantize(const Weight& weight, const ConstTensor& matrix);

  std::unique_ptr<Threads> threads_;
  Q4Error error_;
};

/// The nearest bf16 of f32 or f16, ties to even; a NaN stays one.
HostTensor round_to_bf16(const ConstTensor& tensor);

}  // namespace tandem
