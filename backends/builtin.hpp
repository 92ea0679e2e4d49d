#pragma once

#include "backends/cpu/cpu_backend.hpp"
#include "core/context.hpp"

namespace tandem {

struct BackendOptions {
  CpuOptions cpu;
  std::uint64_t gpu_memory = 0;  ///< bytes that each device may take at most; 0: all that is free
};

/// A context with every backend that was compiled in: "cpu" and "reference"; those that could be there and
/// are not are in Context::absent(). Throws as their factories.
Context make_context(const BackendOptions& options);

}  // namespace tandem
