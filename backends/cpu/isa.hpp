#pragma once

#include <span>

#include "backends/cpu/kernels.hpp"

namespace tandem::cpu {

/// A kernel set of this binary and whether this machine's processor has what it needs.
struct CompiledSet {
  const KernelSet* kernels;
  bool usable;
};

/// All sets that were compiled in, best first; the last is the definition, "scalar". At least one is usable.
std::span<const CompiledSet> compiled_sets();

}  // namespace tandem::cpu
