#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "graph/session/generate.hpp"
#include "graph/session/session_snapshot.hpp"
#include "tests/properties/model_runs.hpp"
#include "tests/share.hpp"

/// A sequence that went through a file gives the bits of one that never stopped, wherever its layers live
/// then.
namespace tandem {
namespace {

constexpr std::size_t kPositions[] = {0, 1, 31, 32, 33, 75, 150};  // a page has 32 tokens
const std::size_t kMore = test::share_of(40);

class SnapshotPlacementTest : public testing::TestWithParam<const char*> {
 protected:
  static SessionOptions placed(const std::string& place) {
    SessionOptions options;
    options.place = place;
    options.residency = Residency::per_layer;
    options.sequences = 2;
    options.context_tokens = 256;
    return options;
  }
  ~SnapshotPlacementTest() override { std::filesystem::remove(file_); }

  /// Logits of the tokens after a position, and all state in the end.
  static Outcome finish(Session& session, SequenceId sequence, std::span<const TokenId> rest) {
    Outcome outcome;
    outcome.logits = session.feed(sequence, rest, Outputs::all);
    outcome.layers = all_layers(session.state(), sequence);
    return outcome;
  }

  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("tandem-properties-" + std::to_string(::getpid()) + ".tds");
  const std::vector<TokenId> ids_ = heldout_ids(200);
};

TEST_P(SnapshotPlacementTest, GoesOnWithTheSameBits) {
  const Context context = two_cpus();
  Session saver(context, tiny_model(), placed("cpu,other:2-4"));
  Session loader(context, tiny_model(), placed(GetParam()));
  for (const std::size_t position : kPositions) {
    const std::span<const TokenId> before = std::span(ids_).first(position),
                                   rest = std::span(ids_).subspan(position, kMore);
    const SequenceId original = saver.open();
    saver.feed(original, before, Outputs::none);
    save_sequence(file_, saver, original, before);
    const Outcome expected = finish(saver, original, rest);
    saver.state().close(original);
    const SequenceId loaded = load_sequence(loader, Snapshot::open(file_));
    EXPECT_EQ(loader.state().tokens(loaded), static_cast<std::int64_t>(position));
    expect_same(expected, finish(loader, loaded, rest), "from position " + std::to_string(position));
    loader.state().close(loaded);
  }
}

INSTANTIATE_TEST_SUITE_P(Places, SnapshotPlacementTest,
                         testing::Values("cpu", "other", "cpu,other:2-4", "other,cpu:2-4", "cpu,other:gdn",
                                         "cpu,other:attention"),
                         [](const auto& info) { return test_name(info.param); });

using SnapshotModelTest = SnapshotPlacementTest;

TEST_P(SnapshotModelTest, CarriesSamplingAndPendingIds) {
  const Context context = two_cpus();
  GenerateOptions options;
  options.max_new_tokens = 30;
  options.sampling = {.temperature = 0.9,
                      .top_k = 50,
                      .top_p = 0.95,
                      .seed = 7,
                      .min_p = 0.01,
                      .repeat_penalty = 1.2,
                      .presence_penalty = 0.1,
                      .frequency_penalty = 0.1,
                      .repeat_last_n = 30};
  Session session(context, tiny_model(), placed("cpu"));
  const std::span<const TokenId> prompt = std::span(ids_).first(50);
  const std::vector<TokenId> whole = generate(session, session.open(), prompt, options).ids;
  const SequenceId half = session.open();
  options.max_new_tokens = 12;
  std::vector<TokenId> ids(prompt.begin(), prompt.end());
  const std::vector<TokenId> begun = generate(session, half, prompt, options).ids;
  ids.insert(ids.end(), begun.begin(), begun.end());
  save_sequence(file_, session, half, ids, options.sampling);

  Session other(context, tiny_model(), placed(GetParam()));
  const Snapshot snapshot = Snapshot::open(file_);
  ASSERT_EQ(snapshot.pending_ids().size(), 1u);
  ASSERT_EQ(sampling_of(snapshot), options.sampling);
  options.sampling = sampling_of(snapshot);
  options.max_new_tokens = 18;
  const SequenceId loaded = load_sequence(other, snapshot);
  const std::vector<TokenId> rest = generate(other, loaded, snapshot.pending_ids(), options).ids;
  ids.insert(ids.end(), rest.begin(), rest.end());
  EXPECT_EQ(ids.size(), 80u);
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), ids.begin() + 50));
}

TEST_P(SnapshotModelTest, RefusesIdsOutsideTheVocabularyAndSamplingWithoutMeaning) {
  const Context context = two_cpus();
  Session session(context, tiny_model(), placed(GetParam()));
  const SequenceId sequence = session.open();
  const std::vector<TokenId> wrong{1, 1 << 30};
  EXPECT_THROW(save_sequence(file_, session, sequence, wrong), Error);
  EXPECT_FALSE(std::filesystem::exists(file_));
  // What save_sequence does not write, somebody else's program may.
  save_snapshot(file_, session.state(), sequence, session.model().fingerprint(), wrong,
                SamplingOptions{.temperature = -1, .top_k = 0, .top_p = 1, .seed = 0});
  const std::vector<StateUsage> usage = session.state().usage();
  const auto refused = [](auto&& action) {
    try {
      action();
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt) << error.what();
    }
  };
  refused([&] { load_sequence(session, Snapshot::open(file_)); });
  refused([&] { sampling_of(Snapshot::open(file_)); });
  EXPECT_EQ(session.state().usage(), usage);
}

INSTANTIATE_TEST_SUITE_P(Models, SnapshotModelTest, testing::Values("other", "cpu,other:2-4"),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace tandem
