#include "backends/builtin.hpp"

#include "backends/faulty/faulty_backend.hpp"
#include "backends/reference/reference_backend.hpp"
#if TANDEM_HAVE_CUDA
#include "backends/cuda/cuda_backend.hpp"
#endif

namespace tandem {
namespace {

using Backends = std::vector<std::unique_ptr<Backend>>;

/// Returns why there is none, if there is none.
std::vector<AbsentBackend> add_gpus([[maybe_unused]] const BackendOptions& options,
                                    [[maybe_unused]] Backends& backends) {
#if TANDEM_HAVE_CUDA
  if (!options.gpu) return {{"cuda", "not asked for"}};
  const CudaDevices devices = cuda_devices();
  for (int device = 0; device < devices.count; ++device) {
    backends.push_back(make_cuda_backend({.device = device, .memory_limit = options.gpu_memory}));
  }
  if (devices.count == 0) return {{"cuda", devices.reason}};
  return {};
#else
  return {{"cuda", "built without CUDA"}};
#endif
}

}  // namespace

Context make_context(const BackendOptions& options) {
  Backends backends;
  backends.push_back(make_cpu_backend(options.cpu));
  backends.push_back(make_reference_backend());
  if (options.stand_in) {
    CpuOptions second = options.cpu;
    second.name = kStandIn;
    backends.push_back(make_cpu_backend(second));
  }
  std::vector<AbsentBackend> absent = add_gpus(options, backends);
  for (std::unique_ptr<Backend>& backend : backends) {
    if (options.faults) backend = make_faulty_backend(std::move(backend), options.faults);
  }
  return Context(std::move(backends), std::move(absent));
}

}  // namespace tandem
