#pragma once

#include <string_view>

#include "backends/cpu/cpu_backend.hpp"
#include "core/context.hpp"
#include "core/faults.hpp"

namespace tandem {

/// A second CPU backend, which stands in for a device where there is none: state and weights live on the one
/// or the other, values cross between them, and what is resident where is a real question.
inline constexpr std::string_view kStandIn = "cpu:1";

struct BackendOptions {
  CpuOptions cpu = {};
  bool stand_in = false;         ///< kStandIn too, with the same options as the first CPU backend
  bool gpu = false;              ///< the GPUs of this machine too; taking hold of one costs time and memory
  std::uint64_t gpu_memory = 0;  ///< bytes that each device may take at most; 0: all that is free
  /// Every backend is wrapped (backends/faulty) so that these happen to it; null: none is.
  std::shared_ptr<Faults> faults = nullptr;
};

/// A context of the backends that were compiled in: "cpu", "reference" and, when asked for, "cpu:1" and
/// "cuda:0", "cuda:1" and so on. Those that could be there and are not are in Context::absent(). Throws as
/// their factories.
Context make_context(const BackendOptions& options);

}  // namespace tandem
