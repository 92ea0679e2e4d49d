#include <memory>
#include <new>

#include "backends/cpu/kernels.hpp"

namespace tandem::cpu {
namespace {

struct Free {
  void operator()(float* p) const { ::operator delete[](p, std::align_val_t{64}); }
};

thread_local std::unique_ptr<float[], Free> memory;
thread_local std::int64_t capacity = 0;

}  // namespace

float* thread_scratch(std::int64_t count) {
  if (count > capacity) {
    memory.reset(static_cast<float*>(
        ::operator new[](static_cast<std::size_t>(count) * sizeof(float), std::align_val_t{64})));
    capacity = count;
  }
  return memory.get();
}

}  // namespace tandem::cpu
