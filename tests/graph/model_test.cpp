#include "graph/model/model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/numerics.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/tensor_names.hpp"
#include "graph/model/widen.hpp"
#include "graph/session/generate.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/properties/model_runs.hpp"

namespace tandem {
namespace {

/// The shipped model's weights with one of them replaced.
std::shared_ptr<const Model> changed_model(const std::string& which,
                                           const std::function<HostTensor(const HostTensor&)>& change) {
  const std::shared_ptr<const Model> model = tiny_model();
  const auto source = [&](const Weight& weight) {
    const HostTensor tensor = model->weight(weight_named(model->graph(), weight.name)).on_host();
    return weight.name == which ? change(tensor) : tensor;
  };
  return std::make_shared<const Model>(model->config(), build_model_graph(model->config()), source);
}

TEST(Model, FingerprintTellsWeightsApart) {
  const auto same = changed_model("", [](const HostTensor& t) { return t; });
  EXPECT_EQ(same->fingerprint(), tiny_model()->fingerprint());
  const auto other = changed_model("norm.weight", [](const HostTensor& t) {
    HostTensor copy = widen_to_f32(t.view);
    const_cast<float*>(copy.view.row<float>(0))[0] += 1.0f;
    return copy;
  });
  EXPECT_NE(other->fingerprint(), tiny_model()->fingerprint());
}

TEST(Model, RefusesAWeightOfAnotherShapeOrType) {
  expect_error(ErrorCode::mismatch, "tensor 'norm.weight' is [191], the configuration asks for [192]", [] {
    changed_model("norm.weight", [](const HostTensor& t) {
      return HostTensor{t.view.slice_rows(0, 191), t.owner};
    });
  });
  expect_error(ErrorCode::mismatch, "expected f32, bf16 or f16", [] {
    changed_model("norm.weight", [](const HostTensor& t) {
      return HostTensor{ConstTensor(t.view.data, DType::i32, t.view.shape), t.owner};
    });
  });
}

TEST(Widen, F16IsExactForEveryPattern) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>((bits >> 10) & 31), fraction = static_cast<int>(bits & 1023);
    double expected = exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                      : exponent > 0 ? std::ldexp(1024 + fraction, exponent - 25)
                                     : std::ldexp(fraction, -24);
    if ((bits & 0x8000) != 0) expected = -expected;
    const float widened = num::widen(f16{static_cast<std::uint16_t>(bits)});
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(widened)) << bits;
    } else {
      const auto exact = static_cast<float>(expected);
      ASSERT_EQ(std::memcmp(&widened, &exact, sizeof exact), 0) << bits;
    }
  }
}

class GenerateTest : public testing::Test {
 protected:
  Generated go_on(std::int64_t context, std::int64_t count, std::vector<std::int64_t> stop_ids = {}) {
    SessionOptions options;
    options.context_tokens = context;
    Session session(context_, tiny_model(), options);
    GenerateOptions generate_options;
    generate_options.max_new_tokens = count;
    generate_options.stop_ids = std::move(stop_ids);
    return generate(session, session.open(), heldout_ids(10), generate_options);
  }

  Context context_ = two_cpus();
};

TEST_F(GenerateTest, StopsForItsReason) {
  const Generated plain = go_on(100, 20);
  EXPECT_EQ(plain.reason, StopReason::length);
  EXPECT_EQ(plain.ids.size(), 20u);
  EXPECT_EQ(go_on(100, 0).ids.size(), 0u);

  // Ten tokens of prompt and five of context: the sixth is chosen from the last one's logits and has no room
  // to be fed.
  const Generated full = go_on(15, 20);
  EXPECT_EQ(full.reason, StopReason::context);
  EXPECT_EQ(full.ids, std::vector<TokenId>(plain.ids.begin(), plain.ids.begin() + 6));

  const Generated ended = go_on(100, 20, {plain.ids[7]});
  EXPECT_EQ(ended.reason, StopReason::end_of_text);
  EXPECT_EQ(ended.ids.size(),
            static_cast<std::size_t>(std::find(plain.ids.begin(), plain.ids.end(), plain.ids[7]) -
                                     plain.ids.begin()));
}

TEST_F(GenerateTest, APromptThatDoesNotFitIsRefusedBeforeAnythingRuns) {
  expect_error(ErrorCode::invalid_argument, "the prompt has 10 tokens, the context has room for 9",
               [&] { go_on(9, 1); });
}

TEST_F(GenerateTest, AStepRefusesBadTokensAndChangesNothing) {
  SessionOptions options;
  options.sequences = 2;
  Session session(context_, tiny_model(), options);
  const SequenceId sequence = session.open();
  const auto step = [&](std::vector<TokenId> tokens) {
    return [&session, sequence, tokens] {
      const SequenceTokens batch[] = {{sequence, tokens, Outputs::last}};
      session.scheduler().step(batch);
    };
  };
  expect_error(ErrorCode::invalid_argument, "token id 2048 is outside the vocabulary (0 to 2047)",
               step({1, 2048}));
  expect_error(ErrorCode::invalid_argument, "token id -1", step({-1}));
  expect_error(ErrorCode::invalid_argument, "has no tokens", step({}));
  expect_error(ErrorCode::invalid_argument, "take them in chunks", step(std::vector<TokenId>(65, 1)));
  expect_error(ErrorCode::invalid_argument, "in the batch twice", [&] {
    const std::vector<TokenId> one{1};
    const SequenceTokens batch[] = {{sequence, one, Outputs::last}, {sequence, one, Outputs::last}};
    session.scheduler().step(batch);
  });
  EXPECT_EQ(session.state().tokens(sequence), 0);
}

}  // namespace
}  // namespace tandem
