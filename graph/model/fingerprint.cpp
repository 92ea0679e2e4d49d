#include "graph/model/fingerprint.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "core/arithmetic.hpp"
#include "core/error.hpp"
#include "core/io/model_config_fields.hpp"

namespace tandem {
namespace {

constexpr std::int64_t kSampleBytes = 2048;
constexpr std::int64_t kPieceBytes = 1 << 16;

struct Release {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

void add(XXH3_state_t& state, const void* data, std::int64_t bytes) {
  XXH3_128bits_update(&state, data, static_cast<std::size_t>(bytes));
}

void add(XXH3_state_t& state, std::string_view text) {
  add(state, text.data(), static_cast<std::int64_t>(text.size()));
}

std::string to_text(std::int64_t value) { return std::to_string(value); }
/// Hexadecimal: exact.
std::string to_text(double value) { return fmt::format("{:a}", value); }
std::string to_text(bool value) { return value ? "true" : "false"; }
std::string to_text(const std::string& value) { return value; }
std::string to_text(const std::vector<std::int64_t>& value) {
  return fmt::format("{}", fmt::join(value, ","));
}
std::string to_text(const std::vector<LayerKind>& value) {
  std::string text;
  for (const LayerKind kind : value) text += fmt::format("{},", config_name(kind));
  return text;
}

void add_config(XXH3_state_t& state, const ModelConfig& config) {
  visit_fields(config, [&](std::string_view name, const auto& value, FieldUse use) {
    if (use == FieldUse::arithmetic) add(state, fmt::format("{} {}\n", name, to_text(value)));
  });
}

void add_whole(XXH3_state_t& state, const WeightData& weight) {
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(kPieceBytes, weight.view.bytes())));
  for (std::int64_t begin = 0; begin < weight.view.bytes(); begin += kPieceBytes) {
    const std::int64_t end = std::min(begin + kPieceBytes, weight.view.bytes());
    weight.read(begin, end, piece.data());
    add(state, piece.data(), end - begin);
  }
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

std::string fingerprint_of(const ModelConfig& config, const Graph& graph,
                           std::span<const WeightData> weights) {
  const std::unique_ptr<XXH3_state_t, Release> state(XXH3_createState());
  XXH3_128bits_reset(state.get());
  add(*state, fmt::format("arithmetic {}\n", kArithmeticVersion));
  add_config(*state, config);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const ConstTensor& weight = weights[i].view;
    // q4 and q4q8 are the same bytes and another arithmetic.
    const bool quantises_activations = graph.weights()[i].gear == Gear::q4q8;
    add(*state, fmt::format("{} {} {}\n", graph.weights()[i].name, to_string(weight.shape),
                            quantises_activations ? name(Gear::q4q8) : name(weight.dtype)));
    const auto add_values = graph.weights()[i].kind == WeightKind::vector ? add_whole : add_samples;
    add_values(*state, weights[i]);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace tandem
