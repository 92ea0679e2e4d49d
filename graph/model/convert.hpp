#pragma once

#include <functional>
#include <memory>

#include "core/q4_quantizer.hpp"
#include "core/threads.hpp"
#include "graph/model/graph.hpp"
#include "graph/model/weight_data.hpp"

namespace tandem {

/// Brings weights into what their gears want. Not thread-safe.
class WeightConverter {
 public:
  /// Makes threads of its own, one for each processor, when there is something to quantise.
  WeightConverter() = default;
  /// REQUIRES: the threads outlive it and are used by nobody else meanwhile.
  explicit WeightConverter(Threads& threads) : threads_(&threads) {}

  /// Called every few megabytes of a matrix that is quantised. May throw to end it.
  void watch(std::function<void()> watch) { watch_ = std::move(watch); }

  /// `data` as the graph needs the weight: the same memory, or the same recipe of random values, where the
  /// type is right already, else made in host memory now. f32, bf16 and f16 are widened exactly, rounded to
  /// the nearest bf16 (ties to even), or quantised; vectors become f32. Sets error().
  ///
  /// Throws Error(mismatch) naming the weight for another shape or type, and for 4 bits that are asked for as
  /// anything else: what they were made from is gone. Error(out_of_memory); Error(invalid_argument) for
  /// values that 4 bits cannot hold.
  WeightData convert(const Weight& weight, const WeightData& data);

  /// What the last weight lost by being quantised; zero when it was not.
  const Q4Error& error() const { return error_; }

 private:
  HostTensor quantize(const Weight& weight, const ConstTensor& matrix);
  void quantize_rows(const ConstTensor& matrix, void* to);

  Threads* threads_ = nullptr;
  std::unique_ptr<Threads> own_threads_;
  std::function<void()> watch_;
  Q4Error error_;
};

/// Throws Error(mismatch) naming the weight when what is stored has not its shape, or a type that nothing is
/// made of.
void require_convertible(const Weight& weight, const ConstTensor& stored);

/// The nearest bf16 of f32 or f16, ties to even; a NaN stays one.
HostTensor round_to_bf16(const ConstTensor& tensor);

}  // namespace tandem
