#pragma once

#include "backends/cpu/cpu_backend.hpp"
#include "core/context.hpp"

namespace tandem {

struct BackendOptions {
  CpuOptions cpu;
};

/// A context with every backend that was compiled in: "cpu" and "reference". Throws as their factories.
Context make_context(const BackendOptions& options);

}  // namespace tandem
