#include "graph/model/fingerprint.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <memory>

#include "core/error.hpp"

namespace tandem {
namespace {

constexpr std::int64_t kSampleBytes = 2048;

struct Release {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

void add(XXH3_state_t& state, const void* data, std::int64_t bytes) {
  XXH3_128bits_update(&state, data, static_cast<std::size_t>(bytes));
}

void add_samples(XXH3_state_t& state, const WeightData& weight) {
  const std::int64_t bytes = weight.view.bytes(), count = std::min(kSampleBytes, bytes);
  std::array<std::byte, kSampleBytes> sample;
  for (const std::int64_t begin : {std::int64_t{0}, bytes - count}) {
    weight.read(begin, begin + count, sample.data());
    add(state, sample.data(), count);
  }
}

}  // namespace

std::string fingerprint_of(const Graph& graph, std::span<const WeightData> weights) {
  const std::unique_ptr<XXH3_state_t, Release> state(XXH3_createState());
  XXH3_128bits_reset(state.get());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const ConstTensor& weight = weights[i].view;
    // q4 and q4q8 are the same bytes and another arithmetic.
    const bool quantises_activations = graph.weights()[i].gear == Gear::q4q8;
    const std::string line = fmt::format("{} {} {}\n", graph.weights()[i].name, to_string(weight.shape),
                                         quantises_activations ? name(Gear::q4q8) : name(weight.dtype));
    add(*state, line.data(), static_cast<std::int64_t>(line.size()));
    add_samples(*state, weights[i]);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace tandem
