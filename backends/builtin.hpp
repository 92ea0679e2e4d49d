#pragma once

#include "backends/cpu/cpu_backend.hpp"
#include "core/context.hpp"
#include "core/faults.hpp"

namespace tandem {

struct BackendOptions {
  CpuOptions cpu;
  bool gpu = false;              ///< the GPUs of this machine too; taking hold of one costs time and memory
  std::uint64_t gpu_memory = 0;  ///< bytes that each device may take at most; 0: all that is free
  /// Every backend is wrapped (backends/faulty) so that these happen to it; null: none is.
  std::shared_ptr<Faults> faults = nullptr;
};

/// A context of the backends that were compiled in: "cpu", "reference" and, when asked for, "cuda:0",
/// "cuda:1" and so on. Those that could be there and are not are in Context::absent(). Throws as their
/// factories.
Context make_context(const BackendOptions& options);

}  // namespace tandem
