#pragma once

#include <memory>
#include <string>

#include "core/backend.hpp"

namespace tandem {

struct CpuOptions {
  std::string name = "cpu";  ///< as in placements; several CPU backends of one context need different names
  int threads = 0;           ///< 0: one for each processor that this process may use
  std::string variant = "";  ///< force this kernel variant ("scalar", "baseline", "avx2", "avx512"); empty:
                             ///< the best usable one
};

/// The CPU backend: every operator in f32, the same bits from every variant and any number of threads.
/// Weights stay in the file mapping. Operators are done when submit() returns. Throws Error(unsupported) for
/// a variant that is not in this binary or that this processor cannot run.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

}  // namespace tandem
