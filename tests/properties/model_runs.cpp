#include "tests/properties/model_runs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/cpu_backend.hpp"
#include "core/io/mapped_file.hpp"
#include "core/text/tokenizer.hpp"

namespace tandem {

std::filesystem::path tiny_directory() {
  return std::filesystem::path(std::getenv("TANDEM_MODELS")) / "tiny";
}

std::shared_ptr<const Model> open_tiny(const Gears& gears) { return Model::open(tiny_directory(), gears); }

std::shared_ptr<const Model> tiny_model() {
  static const std::shared_ptr<const Model> model = Model::open(tiny_directory());
  return model;
}

std::vector<TokenId> heldout_ids(std::size_t count) {
  static const std::vector<TokenId> all = [] {
    const auto text =
        std::filesystem::path(std::getenv("TANDEM_TEST_DATA")) / "oracle" / "tiny" / "heldout.txt";
    return Tokenizer::load(tiny_directory() / "tokenizer.json").encode(read_text_file(text, 1 << 20));
  }();
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

Context two_cpus() {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_cpu_backend({.name = "cpu", .threads = 2, .variant = ""}));
  backends.push_back(make_cpu_backend({.name = "other", .threads = 1, .variant = "baseline"}));
  return Context(std::move(backends));
}

std::vector<LayerState> all_layers(const StateManager& state, SequenceId sequence) {
  std::vector<LayerState> layers;
  for (std::size_t layer = 0; layer < state.geometry().layers.size(); ++layer) {
    layers.push_back(export_layer(state, sequence, static_cast<int>(layer)));
  }
  return layers;
}

Outcome run_tokens(const Context& context, std::span<const TokenId> ids, const RunOptions& options) {
  SessionOptions session_options = options.session;
  session_options.limits = {options.chunk, options.chunk};
  if (session_options.context_tokens == 0) session_options.context_tokens = std::ssize(ids);
  Session session(context, options.model ? options.model : tiny_model(), session_options);
  const SequenceId sequence = session.open();
  Outcome outcome;
  outcome.logits = session.feed(sequence, ids, Outputs::all);
  outcome.layers = all_layers(session.state(), sequence);
  return outcome;
}

std::vector<TokenId> batch_ids(int sequence) {
  const std::vector<TokenId> all = heldout_ids(600);
  const std::ptrdiff_t first = sequence * 97, count = 40 + sequence * 37;
  return {all.begin() + first, all.begin() + first + count};
}

std::vector<Outcome> run_batch(const Context& context, const std::string& place,
                               const std::vector<int>& order, const std::shared_ptr<const Model>& model) {
  SessionOptions options;
  options.place = place;
  options.sequences = kBatchSequences;
  options.context_tokens = 256;
  Session session(context, model, options);
  std::vector<SequenceId> ids;
  std::vector<std::vector<TokenId>> tokens;
  std::vector<Outcome> outcomes(kBatchSequences);
  std::vector<std::size_t> done(kBatchSequences, 0);
  for (int i = 0; i < kBatchSequences; ++i) {
    ids.push_back(session.open());
    tokens.push_back(batch_ids(i));
  }
  for (std::size_t round = 0;; ++round) {
    std::vector<SequenceTokens> step;
    std::vector<std::size_t> members;
    for (int which : order) {
      const auto i = static_cast<std::size_t>(which);
      const std::size_t count =
          std::min<std::size_t>(tokens[i].size() - done[i], 1 + (round * 5 + i * 3) % 11);
      if (count == 0) continue;
      step.push_back({ids[i], std::span(tokens[i]).subspan(done[i], count), Outputs::all});
      members.push_back(i);
      done[i] += count;
    }
    if (step.empty()) break;
    const std::vector<std::vector<float>> logits = session.scheduler().step(step);
    for (std::size_t m = 0; m < members.size(); ++m) {
      std::vector<float>& all = outcomes[members[m]].logits;
      all.insert(all.end(), logits[m].begin(), logits[m].end());
    }
  }
  for (std::size_t i = 0; i < outcomes.size(); ++i) outcomes[i].layers = all_layers(session.state(), ids[i]);
  return outcomes;
}

std::string test_name(std::string placement) {
  std::replace_if(
      placement.begin(), placement.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return placement;
}

std::int64_t count_different(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  const std::size_t count = std::min(a.size(), b.size());
  if (count == 0 || std::memcmp(a.data(), b.data(), count * sizeof(float)) == 0) return 0;
  std::int64_t different = 0;
  for (std::size_t i = 0; i < count; ++i) different += std::memcmp(&a[i], &b[i], sizeof(float)) != 0 ? 1 : 0;
  return different;
}

void expect_same(const Outcome& expected, const Outcome& found, const std::string& what) {
  ASSERT_EQ(expected.logits.size(), found.logits.size()) << what;
  EXPECT_EQ(count_different(expected.logits, found.logits), 0) << what << ": logits differ";
  ASSERT_EQ(expected.layers.size(), found.layers.size()) << what;
  for (std::size_t i = 0; i < expected.layers.size(); ++i) {
    EXPECT_TRUE(expected.layers[i] == found.layers[i]) << what << ": the state of layer " << i << " differs";
  }
}

}  // namespace tandem
