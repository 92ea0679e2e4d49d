#include "tools/bench/moving_state.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "core/random.hpp"
#include "core/stopwatch.hpp"
#include "tools/bench/measuring.hpp"

namespace tandem::tools {
namespace {

constexpr int kHost = 0;  ///< the backends of MovingState's manager

double copy_ms(Backend& backend, const std::function<void()>& copy) {
  backend.synchronize();
  const Stopwatch clock;
  copy();
  backend.record()->wait();
  return clock.milliseconds();
}

std::uint64_t all_of(const Traffic& traffic) {
  return traffic.uploaded + traffic.downloaded + traffic.weights + traffic.arguments + traffic.checksums;
}

std::int64_t recurrent_elements(const StateGeometry& geometry) {
  return (geometry.recurrent_bytes() + geometry.conv_bytes()) /
         static_cast<std::int64_t>(size_of(geometry.real));
}

}  // namespace

StateGeometry recurrent_part(const StateGeometry& geometry) {
  StateGeometry part = geometry;
  std::erase(part.layers, LayerKind::attention);
  if (part.layers.empty())
    fail(ErrorCode::unsupported, "these layers have no recurrent state to move; give more");
  return part;
}

MovingState::MovingState(Backend& host, Backend& other, const StateGeometry& geometry, std::int64_t sequences)
    : other_(other) {
  const LayerCapacity all{geometry.count(LayerKind::recurrent), 0};
  state_ = std::make_unique<StateManager>(geometry, std::vector<Backend*>{&host, &other},
                                          std::vector<LayerCapacity>{all, all}, StateBudget{sequences, 1, 1});
  staging_ = other.allocate_staging(static_cast<std::size_t>(bytes()));
  memory_ = other.allocate(static_cast<std::size_t>(bytes()));
  std::memset(staging_.data(), 1, staging_.bytes());
  const std::vector<int> homes(geometry.layers.size(), kHost);
  for (std::int64_t i = 0; i < sequences; ++i) {
    ids_.push_back(state_->open({Residency::per_layer, homes}));
    fill(i);
  }
}

MovingState::~MovingState() = default;

std::int64_t MovingState::bytes() const {
  return state_->geometry().slot_bytes() * std::ssize(state_->geometry().layers);
}

std::vector<std::byte> MovingState::made(std::int64_t sequence, int layer) const {
  const CounterRandom random("moving state", static_cast<std::uint64_t>(sequence));
  const StateGeometry& geometry = state_->geometry();
  const auto words = static_cast<std::size_t>(recurrent_elements(geometry)) * size_of(geometry.real) / 8 + 1;
  std::vector<std::uint64_t> drawn(words);
  for (std::size_t i = 0; i < words; ++i)
    drawn[i] = random.bits(static_cast<std::uint64_t>(layer) * words + i);
  std::vector<std::byte> bytes(static_cast<std::size_t>(geometry.recurrent_bytes() + geometry.conv_bytes()));
  std::memcpy(bytes.data(), drawn.data(), bytes.size());
  return bytes;
}

void MovingState::fill(std::int64_t sequence) {
  Backend& host = *state_->view(ids_[static_cast<std::size_t>(sequence)], 0).backend;
  StateStep step = state_->begin(ids_[static_cast<std::size_t>(sequence)], 1);
  for (int layer = 0; layer < static_cast<int>(state_->geometry().layers.size()); ++layer) {
    const std::vector<std::byte> bytes = made(sequence, layer);
    const Tensor recurrent = step.recurrent_out(layer, kHost), conv = step.conv_out(layer, kHost);
    const auto first = static_cast<std::size_t>(recurrent.bytes());
    host.upload(recurrent.data, bytes.data(), first);
    host.upload(conv.data, bytes.data() + first, bytes.size() - first);
  }
  host.synchronize();
  step.commit();
}

double MovingState::copy_there_ms() {
  return copy_ms(other_, [&] { other_.send(memory_.data(), staging_.data(), staging_.bytes()); });
}

double MovingState::copy_back_ms() {
  return copy_ms(other_, [&] { other_.receive(staging_.data(), memory_.data(), staging_.bytes()); });
}

MigrationReport MovingState::move(std::int64_t sequence, int backend) {
  return migrate(*state_, {ids_[static_cast<std::size_t>(sequence)], backend, {}});
}

std::int64_t MovingState::elements() const {
  return sequences() * std::ssize(state_->geometry().layers) * recurrent_elements(state_->geometry());
}

std::int64_t MovingState::count_different() const {
  std::int64_t different = 0;
  for (std::int64_t sequence = 0; sequence < sequences(); ++sequence) {
    for (int layer = 0; layer < static_cast<int>(state_->geometry().layers.size()); ++layer) {
      const LayerState found = export_layer(*state_, ids_[static_cast<std::size_t>(sequence)], layer);
      const std::vector<std::byte> expected = made(sequence, layer);
      different += tools::count_different(found.bytes, expected, state_->geometry().real);
    }
  }
  return different;
}

namespace {

/// Runs a verb and adds what it cost.
void measure(StateManager& state, Backend& backend, VerbCost& cost, const std::function<void()>& verb) {
  const StateUsage before = state.usage().front();
  const std::uint64_t moved = all_of(backend.traffic());
  const Stopwatch clock;
  verb();
  cost.microseconds.push_back(clock.milliseconds() * 1e3);
  const StateUsage after = state.usage().front();
  const std::int64_t slots = after.slots_used - before.slots_used;
  cost.bytes_moved += static_cast<std::int64_t>(all_of(backend.traffic()) - moved);
  cost.bytes_beyond_slots += after.used_bytes - before.used_bytes - slots * state.geometry().slot_bytes();
}

}  // namespace

VerbCosts measure_verbs(Backend& backend, const StateGeometry& geometry, std::int64_t runs) {
  constexpr std::int64_t kKept = 4;
  VerbCosts costs{.kept_versions = kKept, .step = {}, .fork = {}, .rollback = {}};
  StateManager state(geometry, {&backend}, {{geometry.count(LayerKind::recurrent), 0}}, {2, kKept, kKept});
  const auto step = [&](SequenceId id) { state.begin(id, 1).commit(); };
  for (std::int64_t run = 0; run < runs; ++run) {
    const SequenceId id = state.open({Residency::per_layer, std::vector<int>(geometry.layers.size(), 0)});
    for (std::int64_t i = 0; i < kKept; ++i) measure(state, backend, costs.step, [&] { step(id); });
    SequenceId fork;
    measure(state, backend, costs.fork, [&] { fork = state.fork(id); });
    const std::int64_t oldest = state.versions(id).front().number;
    measure(state, backend, costs.rollback, [&] { state.rollback(id, oldest); });
    state.close(fork);
    state.close(id);
  }
  return costs;
}

}  // namespace tandem::tools
