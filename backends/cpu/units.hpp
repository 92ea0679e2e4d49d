#pragma once

#include <cstdint>

#include "core/ops.hpp"

namespace tandem::cpu {

/// How an operator is cut over threads. A unit is what a kernel computes whole: an output row of a
/// projection, a channel of the convolution, a head of the recurrence, a token elsewhere.
struct Units {
  std::int64_t count = 0;
  std::int64_t cost = 0;  ///< of one unit, in multiply-adds, roughly
};

Units units_of(const Op& op);

/// Fewest units to hand to one of `threads` at a time: waking one costs some microseconds, in which a core
/// does some units' work, and a projection's kernel lays its activations out for every range anew.
std::int64_t grain_of(const Units& units, int threads);

}  // namespace tandem::cpu
