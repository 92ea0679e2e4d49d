#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.hpp"
#include "backends/cuda/cuda_backend.hpp"
#include "core/context.hpp"

namespace tandem {

/// Skips the test, with the reason, on a machine without a GPU.
#define SKIP_WITHOUT_DEVICE() \
  if (const CudaDevices devices = cuda_devices(); devices.count == 0) GTEST_SKIP() << devices.reason

inline Context context_of(std::unique_ptr<Backend> first, std::unique_ptr<Backend> second = nullptr) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(std::move(first));
  if (second) backends.push_back(std::move(second));
  return Context(std::move(backends));
}

inline Context cpu_alone(int threads = 0) { return context_of(make_cpu_backend({.threads = threads})); }

inline Context cpu_and_gpu(int threads = 0, std::uint64_t gpu_memory = 0) {
  return context_of(make_cpu_backend({.threads = threads}),
                    make_cuda_backend({.device = 0, .memory_limit = gpu_memory}));
}

}  // namespace tandem
