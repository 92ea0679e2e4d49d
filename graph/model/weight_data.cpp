#include "graph/model/weight_data.hpp"

#include <cstring>

namespace tandem {
namespace {

/// Byte i of a q4 tensor of random values: of the levels, or of the scales behind them.
std::byte random_q4_byte(const RandomTensor& tensor, std::int64_t i) {
  constexpr std::int64_t kHalf = kQ4Block / 2;
  const std::int64_t level_bytes = tensor.shape.elements() / 2;
  if (i >= level_bytes) {
    const std::int64_t block = (i - level_bytes) / 2;
    const f16 scale =
        random_q4_scale(tensor.random, usual_q4_scale(tensor), static_cast<std::uint64_t>(block));
    return static_cast<std::byte>(scale.bits >> (8 * (i % 2)));
  }
  const auto low = static_cast<std::uint64_t>(i / kHalf * kQ4Block + i % kHalf);
  return static_cast<std::byte>((random_q4_level(tensor.random, low) + 8) |
                                (random_q4_level(tensor.random, low + kHalf) + 8) << 4);
}

}  // namespace

HostTensor WeightData::on_host() const {
  return random ? make_host_tensor("model", *random) : HostTensor{view, owner};
}

void WeightData::read(std::int64_t begin, std::int64_t end, std::byte* to) const {
  if (!random) {
    std::memcpy(to, static_cast<const std::byte*>(view.data) + begin, static_cast<std::size_t>(end - begin));
  } else if (view.dtype == DType::q4) {
    for (std::int64_t i = begin; i < end; ++i) to[i - begin] = random_q4_byte(*random, i);
  } else {
    const auto element = static_cast<std::int64_t>(size_of(view.dtype));
    write_random(*random, begin / element, end / element, to);
  }
}

ResidentTensor WeightData::load_on(Backend& backend) const {
  return random ? backend.generate(*random) : backend.load({view, owner});
}

}  // namespace tandem
