#include "core/random_tensor.hpp"

#include <memory>

#include "core/host_memory.hpp"

namespace tandem {

void write_random_q4(const RandomTensor& tensor, std::int64_t begin, std::int64_t end, void* to) {
  constexpr std::int64_t kHalf = kQ4Block / 2;
  const float usual = usual_q4_scale(tensor);
  auto* levels = static_cast<std::uint8_t*>(to);
  auto* scales = reinterpret_cast<f16*>(levels + tensor.shape.elements() / 2);
  for (std::int64_t b = begin; b < end; ++b) {
    scales[b] = random_q4_scale(tensor.random, usual, static_cast<std::uint64_t>(b));
    for (std::int64_t i = 0; i < kHalf; ++i) {
      const auto at = static_cast<std::uint64_t>(b * kQ4Block + i);
      const std::int32_t low = random_q4_level(tensor.random, at) + 8,
                         high = random_q4_level(tensor.random, at + kHalf) + 8;
      levels[b * kHalf + i] = static_cast<std::uint8_t>(low | (high << 4));
    }
  }
}

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
  if (tensor.dtype == DType::q4) {
    parallel_for(tensor.shape.elements() / kQ4Block, [&](std::int64_t begin, std::int64_t end) {
      write_random_q4(tensor, begin, end, memory->data());
    });
    return {ConstTensor(memory->data(), tensor.dtype, tensor.shape), memory};
  }
  const auto element = static_cast<std::int64_t>(size_of(tensor.dtype));
  parallel_for(tensor.shape.elements(), [&](std::int64_t begin, std::int64_t end) {
    write_random(tensor, begin, end, static_cast<std::byte*>(memory->data()) + begin * element);
  });
  return {ConstTensor(memory->data(), tensor.dtype, tensor.shape), memory};
}

}  // namespace tandem
