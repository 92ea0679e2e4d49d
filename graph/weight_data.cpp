#include "graph/weight_data.hpp"

#include <cstring>

namespace tandem {

HostTensor WeightData::on_host() const {
  return random ? make_host_tensor("model", *random) : HostTensor{view, owner};
}

void WeightData::read(std::int64_t begin, std::int64_t end, void* to) const {
  if (random) return write_random(*random, begin, end, to);
  const auto element = static_cast<std::int64_t>(size_of(view.dtype));
  std::memcpy(to, static_cast<const std::byte*>(view.data) + begin * element,
              static_cast<std::size_t>((end - begin) * element));
}

ResidentTensor WeightData::load_on(Backend& backend) const {
  return random ? backend.generate(*random) : backend.load({view, owner});
}

}  // namespace tandem
