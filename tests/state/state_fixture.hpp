#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "state/layer_state.hpp"
#include "state/state_manager.hpp"
#include "tests/state/fake_backend.hpp"

namespace tandem::testing {

/// Calls `action` and expects an Error of this code, in one line that has all of these words.
template <class Action>
void expect_error(ErrorCode code, std::initializer_list<const char*> words, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(name(error.code()), name(code)) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    for (const char* word : words) EXPECT_THAT(error.what(), ::testing::HasSubstr(word));
    return;
  }
  ADD_FAILURE() << "expected an error of code " << name(code);
}

/// Layers r r k r k; dimensions all different, none a multiple of the alignment; pages of 4 tokens.
StateGeometry small_geometry();
/// 48 recurrent and 16 kv layers, every fourth of which is kv, as in Qwen3.5 27B.
StateGeometry geometry_27b();

/// Room for all layers of a geometry on one backend.
LayerCapacity all_layers(const StateGeometry& geometry);

/// Bits that depend on all three in a way that no accident repeats.
std::uint32_t blend(std::uint32_t old, std::uint64_t element, std::uint32_t token);

/// Computes a step: each element of recurrent state from its old value and the tokens, each key and value
/// from the one of the position before and its token. Reads and writes memory through the step only.
void compute(const StateManager& manager, const StateStep& step, const std::vector<std::uint32_t>& tokens);
/// Fills all that the step may write with rubbish.
void scribble(const StateManager& manager, const StateStep& step);

/// begin, compute, commit.
void advance(StateManager& manager, SequenceId id, const std::vector<std::uint32_t>& tokens);

/// All layers of a version (of the newest).
std::vector<LayerState> export_all(const StateManager& manager, SequenceId id,
                                   std::optional<std::int64_t> version = {});

/// Slots and pages in use, over all backends.
struct Used {
  std::int64_t slots = 0;
  std::int64_t pages = 0;
  bool operator==(const Used&) const = default;
};
Used used(const StateManager& manager);

inline const std::vector<std::uint32_t> kThreeTokens{11, 12, 13};

/// A manager with two backends that both have room for everything: sequences of up to 20 tokens, 3 kept
/// versions.
class StateTest : public ::testing::Test {
 protected:
  static constexpr StateBudget kBudget{.sequences = 3, .context_tokens = 20, .kept_versions = 3};

  SequenceId open_on(int backend) { return manager.open({Residency::uniform, std::vector<int>(5, backend)}); }
  SequenceId open_split() { return manager.open({Residency::per_layer, {0, 1, 1, 0, 0}}); }

  FakeBackend cpu{"cpu"};
  FakeBackend gpu{"gpu"};
  StateManager manager{
      small_geometry(), {&cpu, &gpu}, {all_layers(small_geometry()), all_layers(small_geometry())}, kBudget};
};

}  // namespace tandem::testing
