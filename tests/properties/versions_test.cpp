#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "backends/builtin.hpp"
#include "core/error.hpp"
#include "graph/session/generate.hpp"
#include "tests/properties/model_runs.hpp"
#include "tests/share.hpp"

/// Fork, abort, rollback and reset of real sequences leave the bits of an undisturbed one.
namespace tandem {
namespace {

class VersionsTest : public testing::Test {
 protected:
  VersionsTest() : context_(make_context({})), session_(context_, tiny_model(), options()) {}

  static SessionOptions options() {
    SessionOptions options;
    options.sequences = 3;
    options.kept_versions = 4;
    options.context_tokens = 512;
    return options;
  }

  Outcome finish(SequenceId sequence, std::span<const TokenId> rest) {
    Outcome outcome;
    outcome.logits = session_.feed(sequence, rest, Outputs::all);
    outcome.layers = all_layers(session_.state(), sequence);
    return outcome;
  }

  /// The outcome of `before` then `rest`, undisturbed; logits of `rest` only.
  Outcome undisturbed(std::span<const TokenId> before, std::span<const TokenId> rest) {
    const SequenceId sequence = session_.open();
    session_.feed(sequence, before, Outputs::none);
    Outcome outcome = finish(sequence, rest);
    session_.state().close(sequence);
    return outcome;
  }

  Context context_;
  Session session_;
  /// More than two pages in any case.
  static constexpr std::size_t kLeastBefore = 70;
  const std::vector<TokenId> ids_ = heldout_ids(300);
  const std::span<const TokenId> before_ =
      std::span(ids_).first(std::max(test::share_of(std::size_t{150}), kLeastBefore));
  const std::span<const TokenId> rest_ = std::span(ids_).subspan(150, 50);
  const std::span<const TokenId> other_ = std::span(ids_).subspan(220, 60);
};

TEST_F(VersionsTest, AForkGoesItsOwnWay) {
  const SequenceId one = session_.open();
  session_.feed(one, before_, Outputs::none);
  const SequenceId two = session_.state().fork(one);
  const Outcome first = finish(one, rest_);
  const Outcome second = finish(two, other_);
  expect_same(undisturbed(before_, rest_), first, "the original");
  expect_same(undisturbed(before_, other_), second, "the fork");
}

TEST_F(VersionsTest, AnAbortedStepHasNotHappened) {
  const SequenceId sequence = session_.open();
  session_.feed(sequence, before_, Outputs::none);
  {
    // Runs every layer of other tokens and never commits: what an exception in the last layer leaves behind.
    const Probe fail_at_the_head = [](const Node& node, const Value&, const ConstTensor&) {
      if (node.part == Part::head) fail(ErrorCode::device_lost, "planted");
    };
    const SequenceTokens step[] = {{sequence, other_, Outputs::last}};
    EXPECT_THROW(session_.scheduler().step(step, fail_at_the_head), Error);
  }
  EXPECT_EQ(session_.state().tokens(sequence), std::ssize(before_));
  expect_same(undisturbed(before_, rest_), finish(sequence, rest_), "after the abort");
}

TEST_F(VersionsTest, RollbackForgetsWhatCameAfter) {
  const SequenceId sequence = session_.open();
  session_.feed(sequence, before_, Outputs::none);
  const std::int64_t version = session_.state().versions(sequence).back().number;
  session_.feed(sequence, other_.first(20), Outputs::none);
  session_.feed(sequence, other_.subspan(20, 1), Outputs::none);
  session_.state().rollback(sequence, version);
  EXPECT_EQ(session_.state().tokens(sequence), std::ssize(before_));
  expect_same(undisturbed(before_, rest_), finish(sequence, rest_), "after the rollback");
}

TEST_F(VersionsTest, ResetStartsAnew) {
  const SequenceId sequence = session_.open();
  session_.feed(sequence, other_, Outputs::none);
  session_.state().reset(sequence);
  session_.feed(sequence, before_, Outputs::none);
  expect_same(undisturbed(before_, rest_), finish(sequence, rest_), "after the reset");
}

TEST_F(VersionsTest, AMixOfAllOfThem) {
  const SequenceId one = session_.open();
  session_.feed(one, before_.first(33), Outputs::none);
  const SequenceId two = session_.state().fork(one);
  session_.feed(two, other_, Outputs::none);
  session_.feed(one, before_.subspan(33), Outputs::none);
  const std::int64_t version = session_.state().versions(one).back().number;
  session_.feed(one, other_.first(64 < other_.size() ? 64 : other_.size()), Outputs::none);
  session_.state().rollback(one, version);
  session_.state().close(two);
  expect_same(undisturbed(before_, rest_), finish(one, rest_), "after everything");
}

TEST_F(VersionsTest, UniformSequencesRefuseASplitPlan) {
  const Context context = two_cpus();
  SessionOptions split = options();
  split.place = "cpu,other:0-3";
  split.residency = Residency::uniform;
  Session session(context, tiny_model(), split);
  EXPECT_THROW(session.open(), Error);
  split.place = "cpu,other:mlp";  // no state there: still uniform
  EXPECT_NO_THROW(Session(context, tiny_model(), split).open());
}

TEST_F(VersionsTest, TheSameSeedGivesTheSameTextAnywhere) {
  GenerateOptions generate_options;
  generate_options.max_new_tokens = 40;
  generate_options.sampling = {.temperature = 0.9, .top_k = 50, .top_p = 0.95, .seed = 7};
  const auto text = [&](const Context& context, const std::string& place, std::uint64_t seed) {
    SessionOptions session_options = options();
    session_options.place = place;
    session_options.residency = Residency::per_layer;
    Session session(context, tiny_model(), session_options);
    generate_options.sampling.seed = seed;
    return generate(session, session.open(), std::span(ids_).first(150), generate_options).ids;
  };
  const std::vector<TokenId> expected = text(context_, "cpu", 7);
  EXPECT_EQ(expected.size(), 40u);
  EXPECT_EQ(text(two_cpus(), "cpu,other:gdn", 7), expected);
  EXPECT_EQ(text(two_cpus(), "other", 7), expected);
  EXPECT_NE(text(context_, "cpu", 8), expected);
}

}  // namespace
}  // namespace tandem
