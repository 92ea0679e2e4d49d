#include "graph/session/verify.hpp"

#include <gtest/gtest.h>

#include "backends/builtin.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/properties/model_runs.hpp"
#include "tests/share.hpp"

/// Verified drafts leave the bits of decoding one token at a time, however much of them was right.
namespace tandem {
namespace {

constexpr std::int64_t kMostVersions = 16;
constexpr std::size_t kPrompt = 40;

SessionOptions verify_options(const std::string& place) {
  SessionOptions options;
  options.place = place;
  options.residency = Residency::per_layer;
  options.sequences = 4;
  options.context_tokens = 128;
  options.step_versions = kMostVersions;
  return options;
}

class VerifyTest : public testing::TestWithParam<std::string> {
 protected:
  VerifyTest() : session_(context_, tiny_model(), verify_options(GetParam())) {
    prompted_ = session_.open();
    const std::vector<float> logits = session_.feed(prompted_, std::span(ids_).first(kPrompt), Outputs::last);
    decode(logits);
  }

  /// The greedy text after the prompt, one token at a time, with what each left behind.
  void decode(std::vector<float> logits) {
    const SequenceId sequence = session_.fork(prompted_);
    for (std::int64_t i = 0; i <= kMostVersions; ++i) {
      text_.push_back(choose_greedily(logits));
      plain_.push_back({logits, all_layers(session_.state(), sequence)});
      logits = session_.feed(sequence, {&text_.back(), 1}, Outputs::last);
    }
    session_.state().close(sequence);
  }

  /// `length` tokens, the first `right` of which the model chooses too.
  std::vector<TokenId> draft(std::int64_t length, std::int64_t right) const {
    std::vector<TokenId> tokens(text_.begin() + 1, text_.begin() + 1 + length);
    for (auto wrong = tokens.begin() + right; wrong != tokens.end(); ++wrong) *wrong = (*wrong + 1) % 512;
    return tokens;
  }

  /// What follows the prompt and text_[0], one token at a time.
  std::vector<TokenId> sampled(const SamplingOptions& sampling, int tokens) {
    const SequenceId sequence = session_.fork(prompted_);
    std::vector<TokenId> history(ids_.begin(), ids_.begin() + kPrompt);
    history.push_back(text_[0]);
    Sampler sampler;
    for (int i = 0; i < tokens; ++i) {
      const std::vector<float> logits = session_.feed(sequence, {&history.back(), 1}, Outputs::last);
      history.push_back(sampler.choose(logits, sampling, std::ssize(history), history).id);
    }
    session_.close(sequence);
    return {history.end() - tokens, history.end()};
  }

  void expect_as_decoded(const Verified& result, SequenceId sequence, std::int64_t right,
                         const std::string& what) {
    EXPECT_EQ(result.accepted, right) << what;
    const auto after = static_cast<std::size_t>(right) + 1;
    EXPECT_EQ(result.next, text_[after]) << what;
    EXPECT_EQ(session_.state().tokens(sequence), static_cast<std::int64_t>(kPrompt + after)) << what;
    expect_same(plain_[after], {result.logits, all_layers(session_.state(), sequence)}, what);
  }

  Context context_ = two_cpus();
  const std::vector<TokenId> ids_ = heldout_ids(64);
  Session session_;
  SequenceId prompted_;
  std::vector<TokenId> text_;   ///< chosen after the prompt
  std::vector<Outcome> plain_;  ///< [i]: after i of them; the logits that text_[i] was chosen from
};

TEST_P(VerifyTest, EveryNumberOfRightTokensInDraftsOfEveryLength) {
  std::size_t pair = 0;
  for (std::int64_t length = 0; length < kMostVersions; ++length) {
    for (std::int64_t right = 0; right <= length; ++right) {
      if (!test::taken(pair++)) continue;
      const SequenceId sequence = session_.fork(prompted_);
      const std::vector<TokenId> tokens = draft(length, right);
      expect_as_decoded(verify(session_, {sequence, text_[0], tokens}), sequence, right,
                        std::to_string(right) + " of " + std::to_string(length));
      session_.state().close(sequence);
    }
  }
}

TEST_P(VerifyTest, DraftsOfSeveralSequencesGoTogether) {
  const std::int64_t rights[] = {5, 0, 9};
  std::vector<std::vector<TokenId>> tokens;
  std::vector<SequenceId> sequences;
  std::vector<Draft> drafts;
  for (std::int64_t right : rights) {
    tokens.push_back(draft(right + 3, right));
    sequences.push_back(session_.fork(prompted_));
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) drafts.push_back({sequences[i], text_[0], tokens[i]});
  const std::vector<Verified> results = verify(session_, drafts);
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    expect_as_decoded(results[i], sequences[i], rights[i], "sequence " + std::to_string(i));
  }
}

constexpr SamplingOptions kPlain{.temperature = 0.9, .top_k = 50, .top_p = 0.95, .seed = 3};
constexpr SamplingOptions kPenalised{.temperature = 0.9,
                                     .top_k = 0,
                                     .top_p = 0.95,
                                     .seed = 4,
                                     .min_p = 0.01,
                                     .repeat_penalty = 1.3,
                                     .presence_penalty = 0.1,
                                     .frequency_penalty = 0.2,
                                     .repeat_last_n = 20};

TEST_P(VerifyTest, ASampledTextIsTheSameWithDraftsInABatch) {
  constexpr int kTokens = 30;
  const SamplingOptions samplings[] = {kPlain, kPenalised};
  std::vector<std::vector<TokenId>> expected, found(std::size(samplings));
  std::vector<SequenceId> drafted;
  for (const SamplingOptions& sampling : samplings) {
    expected.push_back(sampled(sampling, kTokens));
    drafted.push_back(session_.fork(prompted_));
  }
  EXPECT_NE(expected[0], expected[1]);
  while (std::min(found[0].size(), found[1].size()) < kTokens) {
    std::vector<std::vector<TokenId>> guesses;
    std::vector<Draft> drafts;
    for (std::size_t i = 0; i < found.size(); ++i) {
      // Guesses that are right at first and wrong at a changing place.
      const auto begin = std::min(std::ssize(expected[i]), std::ssize(found[i]));
      std::vector<TokenId>& guess =
          guesses.emplace_back(expected[i].begin() + begin,
                               expected[i].begin() + std::min(std::ssize(expected[i]),
                                                              begin + 3 + static_cast<std::ptrdiff_t>(i)));
      const std::size_t wrong = found[i].size() % 6;
      if (wrong < guess.size()) guess[wrong] = (guess[wrong] + 1) % 512;
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      drafts.push_back({drafted[i], found[i].empty() ? text_[0] : found[i].back(), guesses[i], samplings[i]});
    }
    const std::vector<Verified> results = verify(session_, drafts);
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i].insert(found[i].end(), guesses[i].begin(), guesses[i].begin() + results[i].accepted);
      found[i].push_back(results[i].next);
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    found[i].resize(kTokens);
    EXPECT_EQ(found[i], expected[i]) << "sampling " << i;
  }
}

TEST_P(VerifyTest, ADroppedDraftIsForgotten) {
  const SequenceId sequence = session_.fork(prompted_);
  const std::vector<TokenId> tokens = draft(6, 2);
  verify(session_, {sequence, text_[0], tokens});
  const auto known = session_.scheduler().history().of(sequence, static_cast<std::int64_t>(kPrompt) + 3);
  ASSERT_TRUE(known);
  EXPECT_TRUE(std::equal(known->end() - 3, known->end(), text_.begin()));
  EXPECT_FALSE(session_.scheduler().history().of(sequence, static_cast<std::int64_t>(kPrompt) + 4));
}

TEST_P(VerifyTest, NothingHappensWhenADraftIsRefused) {
  const SequenceId sequence = session_.fork(prompted_);
  const std::vector<LayerState> before = all_layers(session_.state(), sequence);
  const std::vector<TokenId> too_long(kMostVersions, 1), no_token{1, 2, 1 << 20}, fine{1, 2};
  expect_error(ErrorCode::invalid_argument, "draft of 16 tokens needs 17 versions, the session allows 16",
               [&] {
                 verify(session_, {sequence, 1, too_long});
               });
  expect_error(ErrorCode::invalid_argument, "outside the vocabulary", [&] {
    verify(session_, {sequence, 1, no_token});
  });
  expect_error(ErrorCode::invalid_argument, "versions after 2 to 2", [&] {
    const SequenceTokens step[] = {{sequence, fine, Outputs::all}};
    session_.step(step, {}, [](std::size_t, std::span<const float>) { return std::int64_t{1}; });
  });
  const SamplingOptions cold{.temperature = -1};
  expect_error(ErrorCode::invalid_argument, "temperature", [&] {
    verify(session_, {sequence, 1, fine, cold});
  });
  EXPECT_EQ(session_.state().tokens(sequence), static_cast<std::int64_t>(kPrompt));
  EXPECT_TRUE(all_layers(session_.state(), sequence) == before);
}

TEST_P(VerifyTest, ALongerStepKeepsItsLastVersions) {
  constexpr std::int64_t kKept = 4;
  SessionOptions options = verify_options(GetParam());
  options.kept_versions = kKept;
  Session session(context_, tiny_model(), options);
  for (std::int64_t back = 0; back < kKept; ++back) {
    const SequenceId sequence = session.open();
    const SequenceTokens step[] = {{sequence, std::span(ids_).first(kPrompt), Outputs::none, kKept}};
    session.step(step);
    const std::vector<VersionInfo> versions = session.versions(sequence);
    ASSERT_EQ(std::ssize(versions), kKept);
    session.rollback(sequence, versions[static_cast<std::size_t>(kKept - 1 - back)].number);
    const std::size_t left = kPrompt - static_cast<std::size_t>(back);
    ASSERT_EQ(session.tokens(sequence), static_cast<std::int64_t>(left));
    const SequenceId plain = session.open();
    session.feed(plain, std::span(ids_).first(left), Outputs::none);
    const auto rest = std::span(ids_).subspan(left, 9);
    const std::vector<float> expected = session.feed(plain, rest, Outputs::all);
    const std::vector<float> found = session.feed(sequence, rest, Outputs::all);
    expect_same({expected, all_layers(session.state(), plain)},
                {found, all_layers(session.state(), sequence)}, std::to_string(back) + " tokens back");
    session.close(sequence);
    session.close(plain);
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, VerifyTest,
                         testing::Values("cpu", "cpu,other:0-3", "other,cpu:attention"),
                         [](const auto& info) { return test_name(info.param); });

/// 64 ways on from one prompt, all in one batch, equal 64 sequences that had nothing to do with each other.
TEST(ForkTest, SixtyFourWays) {
  constexpr std::size_t kSteps = 6;
  const std::size_t ways_count = test::share_of(std::size_t{64});
  const Context context = make_context({});
  SessionOptions options;
  options.sequences = static_cast<std::int64_t>(ways_count) + 2;
  options.context_tokens = 64;
  Session session(context, tiny_model(), options);
  const std::vector<TokenId> ids = heldout_ids(600);
  const SequenceId prompt = session.open();
  session.feed(prompt, std::span(ids).first(45), Outputs::none);
  std::vector<SequenceId> ways;
  for (std::size_t i = 0; i < ways_count; ++i) ways.push_back(session.fork(prompt));
  std::vector<Outcome> outcomes(ways_count);
  for (std::size_t s = 0; s < kSteps; ++s) {
    std::vector<SequenceTokens> batch;
    for (std::size_t i = 0; i < ways_count; ++i)
      batch.push_back({ways[i], std::span(ids).subspan(50 + 8 * i + s, 1), Outputs::all});
    const std::vector<std::vector<float>> logits = session.step(batch);
    for (std::size_t i = 0; i < ways_count; ++i) {
      outcomes[i].logits.insert(outcomes[i].logits.end(), logits[i].begin(), logits[i].end());
    }
  }
  for (std::size_t i = 0; i < ways_count; ++i) {
    outcomes[i].layers = all_layers(session.state(), ways[i]);
    const SequenceId alone = session.open();
    session.feed(alone, std::span(ids).first(45), Outputs::none);
    const std::vector<float> logits =
        session.feed(alone, std::span(ids).subspan(50 + 8 * i, kSteps), Outputs::all);
    expect_same({logits, all_layers(session.state(), alone)}, outcomes[i], "way " + std::to_string(i));
    session.state().close(alone);
  }
}

}  // namespace
}  // namespace tandem
