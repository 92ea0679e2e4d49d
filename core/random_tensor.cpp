#include "core/random_tensor.hpp"

#include <memory>

#include "core/host_memory.hpp"

namespace tandem {

void write_random(const RandomTensor& tensor, std::int64_t begin, std::int64_t end, void* to) {
  const float step = step_of(tensor);
  for (std::int64_t i = begin; i < end; ++i) {
    const float value = random_element(tensor.random, step, tensor.offset, static_cast<std::uint64_t>(i));
    if (tensor.dtype == DType::bf16) {
      static_cast<bf16*>(to)[i - begin] = round_to_bf16(value);
    } else {
      static_cast<float*>(to)[i - begin] = value;
    }
  }
}

HostTensor make_host_tensor(std::string_view who, const RandomTensor& tensor) {
  return make_host_tensor(who, tensor, [](std::int64_t n, const auto& body) { body(0, n); });
}

HostTensor make_host_tensor(std::string_view who, const RandomTensor& tensor,
                            const ParallelFor& parallel_for) {
  const auto memory = std::make_shared<Buffer>(allocate_host(who, static_cast<std::size_t>(tensor.bytes())));
  const auto element = static_cast<std::int64_t>(size_of(tensor.dtype));
  parallel_for(tensor.shape.elements(), [&](std::int64_t begin, std::int64_t end) {
    write_random(tensor, begin, end, static_cast<std::byte*>(memory->data()) + begin * element);
  });
  return {ConstTensor(memory->data(), tensor.dtype, tensor.shape), memory};
}

}  // namespace tandem
