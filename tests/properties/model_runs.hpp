#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/context.hpp"
#include "core/text/token.hpp"
#include "graph/session/session.hpp"
#include "state/layer_state.hpp"

namespace tandem {

/// The shipped model, opened once.
std::shared_ptr<const Model> tiny_model();
std::filesystem::path tiny_directory();
/// The shipped model in other gears.
std::shared_ptr<const Model> open_tiny(const Gears& gears);
inline constexpr int kTinyLayers = 8;

/// The first `count` tokens of the held-out text.
std::vector<TokenId> heldout_ids(std::size_t count);

/// A context with two CPU backends, "cpu" and "other", which differ in variant and number of threads.
Context two_cpus();

/// What a sequence of tokens came to: every logit and every layer's state, by bits.
struct Outcome {
  std::vector<float> logits;
  std::vector<LayerState> layers;
};

struct RunOptions {
  std::shared_ptr<const Model> model;  ///< null: tiny_model()
  SessionOptions session;
  std::int64_t chunk = 64;
};

/// Feeds the tokens in chunks of a fresh session.
Outcome run_tokens(const Context& context, std::span<const TokenId> ids, const RunOptions& options);

/// Sequences of different texts and lengths for a batch.
inline constexpr int kBatchSequences = 5;
std::vector<TokenId> batch_ids(int sequence);

/// Takes all of them together, in steps of ragged sizes, each step in the given order.
std::vector<Outcome> run_batch(const Context& context, const std::string& place,
                               const std::vector<int>& order,
                               const std::shared_ptr<const Model>& model = tiny_model());

/// A name for a test out of a placement.
std::string test_name(std::string placement);

std::vector<LayerState> all_layers(const StateManager& state, SequenceId sequence);

/// Elements that are not the same bits; also expects as many of them.
std::int64_t count_different(const std::vector<float>& a, const std::vector<float>& b);

/// Expects the same bits in logits and layers; says how many elements or which layers differ.
void expect_same(const Outcome& expected, const Outcome& found, const std::string& what);

}  // namespace tandem
