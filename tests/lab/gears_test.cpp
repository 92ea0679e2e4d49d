#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/q4_quantizer.hpp"
#include "tests/properties/model_runs.hpp"
#include "tools/gears/report.hpp"

/// The error budget finds what it is for: weights that are wired wrongly. Each flaw is planted in an
/// otherwise right model.
namespace tandem::tools {
namespace {

constexpr std::size_t kTokens = 24;
constexpr int kLayer = 1;

/// The shipped model's layer, its x on a text, and what f32 makes of it.
class GearsTest : public testing::Test {
 protected:
  GearsTest() : context_(two_cpus()), model_(open_tiny(Gears::parse("f32"))) {
    SessionOptions options;
    options.limits = {64, 64};
    options.context_tokens = kTokens;
    Session session(context_, model_, options);
    base_.emplace(session, heldout_ids(kTokens), nullptr, nullptr);
  }

  const std::vector<float>& x() const { return base_->mixer_inputs().at(kLayer); }
  WeightSource source() const { return layer_source(*model_, kLayer); }
  LayerValues values(Gear gear, const WeightSource& source, Projections which = Projections::all) const {
    return run_mixer(context_, "cpu", one_mixer(model_->config(), gear, source, which), x());
  }
  std::vector<OperatorError> errors(Gear gear, const WeightSource& source) const {
    return operator_errors(values(Gear::f32, this->source()), values(gear, source));
  }
  /// What the gate looks at.
  std::vector<OperatorError> projections(Gear gear, const WeightSource& source) const {
    const LayerValues f32 = values(Gear::f32, this->source());
    return projections_of(operator_errors(f32, values(gear, source)),
                          operator_errors(f32, values(gear, source, Projections::out_alone)));
  }
  /// A source that quantises a projection and then spoils its bytes.
  WeightSource spoiling(const char* weight,
                        const std::function<void(std::vector<std::uint8_t>&)>& spoil) const {
    return [=, right = source()](const Weight& w) -> WeightData {
      const WeightData data = right(w);
      if (!w.name.ends_with(weight)) return data;
      const HostTensor q4 = quantize_q4(data.view);
      auto bytes = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(q4.view.bytes()));
      std::memcpy(bytes->data(), q4.view.data, bytes->size());
      spoil(*bytes);
      return HostTensor{ConstTensor(bytes->data(), DType::q4, q4.view.shape), bytes};
    };
  }

  Context context_;
  std::shared_ptr<const Model> model_;
  std::optional<TextBase> base_;
};

bool gate(const std::vector<OperatorError>& errors) {
  return std::all_of(errors.begin(), errors.end(), passes_gate);
}
double max_rel(const std::vector<OperatorError>& errors, std::string_view name) {
  for (const OperatorError& error : errors) {
    if (error.name == name) return error.max_rel_first;
  }
  ADD_FAILURE() << "no operator " << name;
  return 0;
}

TEST_F(GearsTest, RightWeightsPassTheGateAndTheProbeIsSound) {
  for (const Gear gear : {Gear::q4, Gear::q4q8}) {
    const std::vector<OperatorError> found = errors(gear, source());
    EXPECT_TRUE(gate(projections(gear, source()))) << name(gear);
    EXPECT_TRUE(probe_is_sound(found)) << name(gear);
    EXPECT_GT(max_rel(found, "xc"), 1e-3) << "4 bits must be seen";
    EXPECT_EQ(max_rel(found, "beta"), 0);
    EXPECT_EQ(max_rel(found, "g"), 0);
  }
}

TEST_F(GearsTest, ASwappedPairOfBuffersOfOneSizeIsCaught) {
  const auto swapped = [right = source()](const Weight& weight) {
    Weight other = weight;
    const auto replace = [&](std::string_view from, std::string_view to) {
      if (weight.name.ends_with(from)) other.name.replace(other.name.size() - from.size(), from.size(), to);
    };
    replace("in_proj_z.weight", "out_proj.weight");
    replace("out_proj.weight", "in_proj_z.weight");
    return right(other);
  };
  const std::vector<OperatorError> found = projections(Gear::q4, swapped);
  EXPECT_GT(max_rel(found, "z"), kWiringGate);
  EXPECT_GT(max_rel(found, "out"), kWiringGate);
}

TEST_F(GearsTest, NibblesInTheWrongOrderAreCaught) {
  const auto swap_halves = [](std::vector<std::uint8_t>& bytes) {
    const std::size_t levels = bytes.size() / static_cast<std::size_t>(kQ4BlockBytes) * 16;
    for (std::size_t i = 0; i < levels; ++i)
      bytes[i] = static_cast<std::uint8_t>(bytes[i] << 4 | bytes[i] >> 4);
  };
  EXPECT_GT(max_rel(errors(Gear::q4, spoiling("in_proj_qkv.weight", swap_halves)), "xc"), kWiringGate);
  EXPECT_GT(max_rel(errors(Gear::q4q8, spoiling("in_proj_z.weight", swap_halves)), "z"), kWiringGate);
}

TEST_F(GearsTest, AScaleOffByOneBlockIsCaught) {
  const auto shift_scales = [](std::vector<std::uint8_t>& bytes) {
    const std::size_t levels = bytes.size() / static_cast<std::size_t>(kQ4BlockBytes) * 16;
    std::memmove(bytes.data() + levels + 2, bytes.data() + levels, bytes.size() - levels - 2);
  };
  for (const Gear gear : {Gear::q4, Gear::q4q8}) {
    EXPECT_GT(max_rel(errors(gear, spoiling("in_proj_qkv.weight", shift_scales)), "xc"), kWiringGate)
        << name(gear);
  }
}

TEST_F(GearsTest, UnlikeInputsMakeTheProbeUnsound) {
  const LayerValues f32 = values(Gear::f32, source());
  std::vector<float> other = x();
  other[3] += 1.0f;
  const LayerValues found =
      run_mixer(context_, "cpu", one_mixer(model_->config(), Gear::q4, source()), other);
  EXPECT_FALSE(probe_is_sound(operator_errors(f32, found)));
}

TEST_F(GearsTest, AModelBesideItselfIsTheSame) {
  SessionOptions options;
  options.limits = {64, 64};
  options.context_tokens = kTokens;
  Session session(context_, model_, options);
  const TextResult same = base_->compare(session, "f32", nullptr, nullptr);
  EXPECT_EQ(same.kl_max, 0);
  EXPECT_EQ(same.greedy_equal, same.tokens);
}

/// The shipped model on held-out text. What was measured over 1,024 tokens is in tools/README.md.
TEST_F(GearsTest, FourBitsCostLittleOfAText) {
  const std::vector<TokenId> ids = heldout_ids(256);
  SessionOptions options;
  options.limits = {64, 64};
  options.context_tokens = 256;
  Session f32(context_, model_, options);
  const TextBase base(f32, ids, nullptr, nullptr);
  const auto perplexity = [&](const char* gears) {
    Session session(context_, open_tiny(Gears::parse(gears)), options);
    return base.compare(session, gears, nullptr, nullptr).perplexity;
  };
  const double bf16 = perplexity("bf16");
  for (const char* gears : {"q4", "q4q8"}) {
    EXPECT_LT(perplexity(gears), 1.04 * bf16) << gears;
    EXPECT_GT(perplexity(gears), bf16) << gears << ": better than its bits allow";
  }
}

TEST_F(GearsTest, ReportsNameWhatIsWrong) {
  GearsReport report;
  report.model = "a <model>";
  report.tokens = 2;
  const std::vector<OperatorError> found = errors(Gear::q4, source());
  report.layers = {{kLayer, Gear::q4, found, found, projections(Gear::q4, source())}};
  EXPECT_TRUE(report.faults().empty());
  EXPECT_THAT(to_text(report), testing::HasSubstr("not a grade of accuracy): passed"));
  report.layers[0].projections[0].max_rel_first = 0.5;
  ASSERT_EQ(report.faults().size(), 1u);
  EXPECT_THAT(report.faults()[0], testing::HasSubstr("layer 1 in q4: the projection to xc has maxrel 0.5"));
  EXPECT_EQ(to_json(report)["faults"].size(), 1u);
  EXPECT_THAT(to_html(report), testing::HasSubstr("a &lt;model&gt;"));
}

TEST(UniformLike, HasTheSameRootMeanSquare) {
  const std::vector<float> x = {3, -4, 0, 5, 0, 0, 0, 0};
  std::vector<float> many;
  for (int i = 0; i < 500; ++i) many.insert(many.end(), x.begin(), x.end());
  double squares = 0;
  for (const float value : uniform_like(many, 1))
    squares += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(squares / static_cast<double>(many.size()), 50.0 / 8, 0.3);
}

}  // namespace
}  // namespace tandem::tools
