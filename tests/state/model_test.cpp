#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "core/random.hpp"
#include "tests/share.hpp"
#include "tests/state/state_fixture.hpp"

/// Random operations on a StateManager and on a model of it that keeps a full copy of every version of every
/// sequence. After every operation all bytes of all versions are compared.
namespace tandem::testing {
namespace {

using Words = std::vector<std::uint32_t>;

/// A version as it should be: recurrent state and convolution's memory, or [tokens, 2, kv_heads, head_dim],
/// per layer.
struct ModelVersion {
  VersionInfo info;
  std::vector<Words> layers;
  std::int64_t serial = 0;  ///< which step made it, shared by forks; 0: none
};

struct ModelSequence {
  std::vector<int> home;
  std::vector<ModelVersion> versions;
  std::int64_t next_number = 0;
};

std::int64_t recurrent_words(const StateGeometry& g) { return g.recurrent_bytes() / 4; }
std::int64_t position_words(const StateGeometry& g) { return 2 * g.kv.kv_heads * g.kv.head_dim; }

ModelVersion zero_version(const StateGeometry& geometry, std::int64_t number) {
  ModelVersion version;
  version.info.number = number;
  for (LayerKind kind : geometry.layers) {
    const std::int64_t bytes = geometry.recurrent_bytes() + geometry.conv_bytes();
    version.layers.emplace_back(kind == LayerKind::recurrent ? bytes / 4 : 0);
  }
  return version;
}

/// What compute() should make of a version.
ModelVersion next_version(const StateGeometry& geometry, const ModelVersion& old, const Words& tokens) {
  ModelVersion next = old;
  for (std::size_t layer = 0; layer < next.layers.size(); ++layer) {
    Words& words = next.layers[layer];
    for (std::uint32_t token : tokens) {
      if (geometry.layers[layer] == LayerKind::recurrent) {
        const auto split = static_cast<std::size_t>(recurrent_words(geometry));
        for (std::size_t i = 0; i < words.size(); ++i)
          words[i] = blend(words[i], i < split ? i : i - split, token);
      } else {
        const auto row = static_cast<std::size_t>(position_words(geometry));
        Words last =
            words.empty() ? Words(row) : Words(words.end() - static_cast<std::ptrdiff_t>(row), words.end());
        for (std::size_t i = 0; i < row; ++i) words.push_back(blend(last[i], i, token));
      }
    }
  }
  next.info.tokens += static_cast<std::int64_t>(tokens.size());
  return next;
}

std::vector<std::byte> bytes_of(const std::uint32_t* words, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * 4);
  if (count > 0) std::memcpy(bytes.data(), words, bytes.size());
  return bytes;
}

LayerState expected_layer(const StateGeometry& geometry, const ModelVersion& version, std::size_t layer) {
  const Words& words = version.layers[layer];
  LayerState state;
  state.kind = geometry.layers[layer];
  state.tokens = version.info.tokens;
  state.pieces = pieces_of(geometry, state.kind);
  if (state.kind == LayerKind::recurrent) {
    state.bytes = bytes_of(words.data(), std::ssize(words));
    return state;
  }
  const KvDims& kv = geometry.kv;
  for (std::int64_t part = 0; part < 2 * kv.kv_heads; ++part) {
    for (std::int64_t position = 0; position < state.tokens; ++position) {
      const auto row =
          bytes_of(&words[position * position_words(geometry) + part * kv.head_dim], kv.head_dim);
      state.bytes.insert(state.bytes.end(), row.begin(), row.end());
    }
  }
  return state;
}

struct OpenStep {
  StateStep step;
  std::vector<ModelVersion> results;  ///< by part; none: it was filled with rubbish and must not be committed
};

class ModelTest : public ::testing::Test {
 protected:
  static constexpr StateBudget kBudget{
      .sequences = 5, .context_tokens = 22, .kept_versions = 3, .step_versions = 4};
  static constexpr std::uint64_t kSeed = 20'26;
  static constexpr int kOperations = 20'000;

  std::uint64_t choose(std::uint64_t n) { return random_.bits(drawn_++) % n; }

  SequenceId any_sequence() {
    auto chosen = sequences_.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(choose(sequences_.size())));
    return {chosen->first, generations_[chosen->first]};
  }

  SequenceId any_open() {
    auto chosen = steps_.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(choose(steps_.size())));
    return chosen->second.step.sequence();
  }

  void open() {
    SequenceOptions options{Residency::uniform, std::vector<int>(5, static_cast<int>(choose(2)))};
    if (choose(2) == 0) {
      options.residency = Residency::per_layer;
      for (int& home : options.home) home = static_cast<int>(choose(2));
    }
    if (full()) return expect_error(ErrorCode::out_of_memory, {"all 5"}, [&] { manager_.open(options); });
    const SequenceId id = manager_.open(options);
    ASSERT_TRUE(note(id));
    sequences_[id.index] = {options.home, {zero_version(geometry_, 0)}, 1};
  }

  void fork(SequenceId id) {
    if (busy(id, [&] { manager_.fork(id); })) return;
    if (full()) return expect_error(ErrorCode::out_of_memory, {"all 5"}, [&] { manager_.fork(id); });
    const SequenceId twin = manager_.fork(id);
    ASSERT_TRUE(note(twin));
    sequences_[twin.index] = sequences_[id.index];
  }

  /// One step in six is left open for operations to come.
  void begin(SequenceId id) {
    ModelSequence& sequence = sequences_[id.index];
    Words tokens(1 + choose(choose(5) == 0 ? 9 : 2));
    for (std::uint32_t& token : tokens) token = static_cast<std::uint32_t>(choose(1000));
    const auto count = static_cast<std::int64_t>(tokens.size());
    if (busy(id, [&] { manager_.begin(id, count); })) return;
    if (sequence.versions.back().info.tokens + count > kBudget.context_tokens) {
      expect_error(ErrorCode::invalid_argument, {"limited to 22"}, [&] { manager_.begin(id, count); });
      return choose(3) == 0 ? close(id) : reset(id);  // or all sequences would soon be full
    }
    if (choose(4) == 0) return begin_failing(id, count);
    const std::int64_t versions = 1 + static_cast<std::int64_t>(choose(4));
    if (versions > count) {
      return expect_error(ErrorCode::invalid_argument, {"expected 1 to"},
                          [&] { manager_.begin(id, count, versions); });
    }
    OpenStep open{manager_.begin(id, count, versions), {}};
    if (choose(4) == 0) {
      scribble(manager_, open.step);
    } else {
      compute(manager_, open.step, tokens);
      open.results = results_of(sequence, tokens, versions);
    }
    steps_.emplace(id.index, std::move(open));
    if (choose(6) != 0) finish(id);
  }

  /// A version after each of the last `versions` tokens.
  std::vector<ModelVersion> results_of(const ModelSequence& sequence, const Words& tokens,
                                       std::int64_t versions) {
    std::vector<ModelVersion> results;
    const std::ptrdiff_t first = std::ssize(tokens) - versions + 1;
    for (std::ptrdiff_t end = first; end <= std::ssize(tokens); ++end) {
      results.push_back(
          next_version(geometry_, sequence.versions.back(), {tokens.begin(), tokens.begin() + end}));
      results.back().info.number = sequence.next_number + end - first;
      results.back().serial = ++last_serial_;
    }
    return results;
  }

  /// The next copy fails, or the one after it, if there are any.
  void begin_failing(SequenceId id, std::int64_t count) {
    const Used held = used(manager_);
    const int successes = static_cast<int>(choose(2));
    for (FakeBackend* backend : {&cpu_, &gpu_}) backend->fail_copy_after(successes);
    try {
      manager_.begin(id, count);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::device_lost);
      EXPECT_EQ(used(manager_), held);
      ++failed_copies_;
    }
    for (FakeBackend* backend : {&cpu_, &gpu_}) backend->fail_copy_after(-1);
  }

  void finish(SequenceId id) {
    const auto found = steps_.find(id.index);
    if (found == steps_.end()) return;
    OpenStep& open = found->second;
    if (!open.results.empty() && choose(5) != 0) {
      const std::uint64_t count = 1 + choose(open.results.size());
      open.step.commit(static_cast<int>(count));
      ModelSequence& sequence = sequences_[id.index];
      for (std::uint64_t i = 0; i < count; ++i) {
        sequence.versions.push_back(std::move(open.results[i]));
        ++sequence.next_number;
        if (sequence.versions.size() > 3) sequence.versions.erase(sequence.versions.begin());
      }
    }
    steps_.erase(found);
  }

  void rollback(SequenceId id) {
    std::vector<ModelVersion>& versions = sequences_[id.index].versions;
    const std::int64_t number = versions.back().info.number - static_cast<std::int64_t>(choose(4));
    if (busy(id, [&] { manager_.rollback(id, number); })) return;
    const auto found = std::find_if(versions.begin(), versions.end(), [&](const ModelVersion& version) {
      return version.info.number == number;
    });
    if (found == versions.end()) {
      return expect_error(ErrorCode::not_found, {"is not kept"}, [&] { manager_.rollback(id, number); });
    }
    manager_.rollback(id, number);
    versions.erase(found + 1, versions.end());
  }

  void reset(SequenceId id) {
    if (busy(id, [&] { manager_.reset(id); })) return;
    manager_.reset(id);
    ModelSequence& sequence = sequences_[id.index];
    sequence.versions = {zero_version(geometry_, sequence.next_number++)};
  }

  void close(SequenceId id) {
    if (busy(id, [&] { manager_.close(id); })) return;
    manager_.close(id);
    sequences_.erase(id.index);
    stale_.push_back(id);
  }

  void touch_stale() {
    if (stale_.empty()) return;
    const SequenceId id = stale_[choose(stale_.size())];
    expect_error(ErrorCode::not_found, {"was closed"}, [&] {
      switch (choose(5)) {
        case 0:
          return manager_.close(id);
        case 1:
          return manager_.reset(id);
        case 2:
          return manager_.rollback(id, 0);
        case 3:
          return static_cast<void>(manager_.fork(id));
        default:
          return static_cast<void>(manager_.begin(id, 1));
      }
    });
  }

  void operate() {
    if (sequences_.empty()) return open();
    switch (choose(16)) {
      case 0:
        return open();
      case 1:
        return fork(any_sequence());
      case 2:
      case 3:
        return rollback(any_sequence());
      case 4:
        return choose(3) == 0 ? reset(any_sequence()) : touch_stale();
      case 5:
        return choose(2) == 0 ? close(any_sequence()) : fork(any_sequence());
      case 6:
      case 7:
        return steps_.empty() ? fork(any_sequence()) : finish(any_open());
      default:
        return begin(any_sequence());
    }
  }

  void compare_all() {
    for (const auto& [index, sequence] : sequences_) {
      const SequenceId id{index, generations_[index]};
      std::vector<VersionInfo> infos;
      for (const ModelVersion& version : sequence.versions) infos.push_back(version.info);
      ASSERT_EQ(manager_.versions(id), infos);
      for (const ModelVersion& version : sequence.versions) {
        for (std::size_t layer = 0; layer < version.layers.size(); ++layer) {
          ASSERT_EQ(export_layer(manager_, id, static_cast<int>(layer), version.info.number),
                    expected_layer(geometry_, version, layer))
              << "sequence " << to_string(id) << " version " << version.info.number << " layer " << layer;
        }
      }
    }
  }

  /// Slots in use are those of distinct versions, and of open steps; pages lie between all shared and none
  /// shared.
  void compare_usage() {
    std::set<std::int64_t> serials{0};
    std::int64_t slots = 0;
    for (const auto& [index, open] : steps_) slots += 3 * open.step.parts();
    std::int64_t most = 0;
    std::int64_t sum = 0;
    for (const auto& [index, sequence] : sequences_) {
      for (const ModelVersion& version : sequence.versions)
        slots += serials.insert(version.serial).second ? 3 : 0;
      const auto open = steps_.find(index);
      const std::int64_t tokens =
          sequence.versions.back().info.tokens + (open == steps_.end() ? 0 : open->second.step.tokens());
      most = std::max(most, 2 * geometry_.pages_for(tokens));
      sum += 2 * geometry_.pages_for(tokens);
    }
    ASSERT_EQ(used(manager_).slots, slots);
    ASSERT_GE(used(manager_).pages, most);
    ASSERT_LE(used(manager_).pages, sum);
  }

  bool full() const { return sequences_.size() == 5; }

  bool note(SequenceId id) {
    generations_[id.index] = id.generation;
    return sequences_.count(id.index) == 0;
  }

  /// While a step is open, no verb of its sequence works.
  template <class Verb>
  bool busy(SequenceId id, Verb&& verb) {
    if (steps_.count(id.index) == 0) return false;
    expect_error(ErrorCode::invalid_argument, {"has an open step"}, verb);
    return true;
  }

  const StateGeometry geometry_ = small_geometry();
  FakeBackend cpu_{"cpu"};
  FakeBackend gpu_{"gpu"};
  StateManager manager_{geometry_, {&cpu_, &gpu_}, {all_layers(geometry_), all_layers(geometry_)}, kBudget};

  CounterRandom random_{"state model", kSeed};
  std::uint64_t drawn_ = 0;
  std::map<std::int64_t, ModelSequence> sequences_;  ///< by index
  std::map<std::int64_t, std::int64_t> generations_;
  std::map<std::int64_t, OpenStep> steps_;
  std::vector<SequenceId> stale_;
  std::int64_t last_serial_ = 0;
  int failed_copies_ = 0;
};

TEST_F(ModelTest, TwentyThousandOperations) {
  const int operations = test::share_of(kOperations);
  for (int i = 0; i < operations; ++i) {
    ASSERT_NO_FATAL_FAILURE(operate()) << "operation " << i;
    ASSERT_NO_FATAL_FAILURE(compare_all()) << "operation " << i;
    ASSERT_NO_FATAL_FAILURE(compare_usage()) << "operation " << i;
    ASSERT_FALSE(HasFailure()) << "operation " << i;
  }
  EXPECT_GT(cpu_.copies() + gpu_.copies(), operations / 100);
  EXPECT_GT(failed_copies_, operations / 1000);
  EXPECT_GT(last_serial_, operations / 10);
  steps_.clear();
  while (!sequences_.empty()) close(any_sequence());
  EXPECT_EQ(used(manager_), Used{});
}

}  // namespace
}  // namespace tandem::testing
