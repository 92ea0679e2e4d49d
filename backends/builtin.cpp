#include "backends/builtin.hpp"

#include "backends/reference/reference_backend.hpp"

namespace tandem {

Context make_context(const BackendOptions& options) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_cpu_backend(options.cpu));
  backends.push_back(make_reference_backend());
  return Context(std::move(backends), {{"cuda", "built without CUDA"}});
}

}  // namespace tandem
