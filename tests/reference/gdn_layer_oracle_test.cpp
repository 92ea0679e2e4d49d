#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/reference/gdn_layer.hpp"
#include "tests/reference/oracle_folder.hpp"
#include "tests/share.hpp"

namespace tandem::test {
namespace {

/// max |difference| over max |value|. Both sides are float64 evaluations that differ in the order of sums of
/// up to 6144 terms, and sums of n terms in random order differ by about sqrt(n) * 2^-53, 1e-14.
/// Measured: 6.5e-15 at worst.
constexpr double kTolerance = 1e-13;

class GdnLayerOracleTest : public testing::TestWithParam<const char*> {
 protected:
  void expect_equal(const std::vector<double>& found, const std::string& name) {
    const double difference = relative_difference(found, oracle_.tensor(name));
    worst_ = std::max(worst_, difference);
    EXPECT_LE(difference, kTolerance) << name;
  }

  void expect_token(const GdnTrace& t, std::int64_t row, const std::string& token) {
    const std::pair<const char*, const Array<double>*> parts[] = {
        {"xc", &t.xc}, {"xcv", &t.xcv}, {"z", &t.z}, {"a", &t.a},   {"b", &t.b},     {"beta", &t.beta},
        {"g", &t.g},   {"q", &t.q},     {"k", &t.k}, {"on", &t.on}, {"onn", &t.onn}, {"out", &t.out},
    };
    for (const auto& [name, array] : parts)
      expect_equal(array->values(row, 1), "f64." + std::string(name) + token);
  }

  void expect_state(const GdnState& state, const std::string& token) {
    std::vector<double> heads, sums;
    for (const std::int64_t h : oracle_.facts().at("S_heads")) {
      const std::vector<double> head = state.delta.values(h, 1);
      heads.insert(heads.end(), head.begin(), head.end());
    }
    for (std::int64_t h = 0; h < state.delta.rows(); ++h) {
      double sum = 0;
      for (const double s : state.delta.values(h, 1)) sum += s * s;
      sums.push_back(sum);
    }
    expect_equal(heads, "f64.S" + token + ".heads");
    expect_equal(sums, "f64.S" + token + ".sumsq");
  }

  OracleFolder oracle_{GetParam()};
  GdnGeometry geometry_{oracle_.facts()};
  GdnLayer layer_{geometry_};
  std::unique_ptr<Backend> backend_ = make_reference_backend();
  double worst_ = 0;
};

TEST_P(GdnLayerOracleTest, WeightsAreTheOracles) {
  const auto& first = oracle_.facts().at("first4");
  const std::pair<const char*, const Array<float>*> weights[] = {
      {"in_proj_qkv.weight", &layer_.in_proj_qkv},
      {"in_proj_z.weight", &layer_.in_proj_z},
      {"in_proj_b.weight", &layer_.in_proj_b},
      {"in_proj_a.weight", &layer_.in_proj_a},
      {"conv1d.weight", &layer_.conv1d},
      {"A_log", &layer_.a_log},
      {"dt_bias", &layer_.dt_bias},
      {"norm.weight", &layer_.norm},
      {"out_proj.weight", &layer_.out_proj},
  };
  for (const auto& [name, weight] : weights) {
    EXPECT_EQ(std::vector<double>(weight->row(0), weight->row(0) + 4),
              first.at(name).get<std::vector<double>>())
        << name;
  }
  const Array<double> x = generated_inputs(geometry_, 1);
  EXPECT_EQ(std::vector<double>(x.row(0), x.row(0) + 4), first.at("x").get<std::vector<double>>());
}

// One token from nothing, then four more: the states that the oracle kept lie at those boundaries.
TEST_P(GdnLayerOracleTest, FirstTokensAgree) {
  const Array<double> x = generated_inputs(geometry_, 5);
  const GdnState empty(geometry_);
  GdnState after_one(geometry_), after_five(geometry_);
  const GdnTrace first = layer_.run(*backend_, x.view().slice_rows(0, 1), empty, after_one);
  expect_token(first, 0, ".t0");
  expect_state(after_one, ".t0");

  const GdnTrace more = layer_.run(*backend_, x.view().slice_rows(1, 4), after_one, after_five);
  expect_token(more, 3, ".t4");
  expect_state(after_five, ".t4");
  std::vector<double> out = first.out.values();
  const std::vector<double> rest = more.out.values();
  out.insert(out.end(), rest.begin(), rest.end());
  expect_equal(out, "f64.out");
  RecordProperty("worst_relative_difference", testing::PrintToString(worst_));
}

/// A share does without the large one: its code is the small one's.
std::vector<const char*> folders() {
  if (one_in() > 1) return {"gdn_small"};
  return {"gdn_small", "gdn_27b"};
}

INSTANTIATE_TEST_SUITE_P(, GdnLayerOracleTest, testing::ValuesIn(folders()),
                         [](const auto& info) { return std::string(info.param); });

/// The long run at the small size only: in plain float64 27B's 512 tokens would outlast all other tests
/// together.
class GdnLongRunTest : public GdnLayerOracleTest {
 protected:
  /// transformers keeps one column more than is needed, channels first, and computed it in float32.
  void expect_convolution_state(const GdnState& state) {
    const std::vector<double> theirs = oracle_.tensor("hf_f32.conv_state");
    std::vector<double> found, newest;
    for (std::int64_t c = 0; c < geometry_.channels(); ++c) {
      for (std::int64_t j = 1; j < geometry_.taps; ++j) {
        found.push_back(state.conv.at(j - 1, c));
        newest.push_back(theirs[static_cast<std::size_t>(c * geometry_.taps + j)]);
      }
    }
    EXPECT_LE(relative_difference(found, newest), 1e-6);
  }
};

TEST_P(GdnLongRunTest, LastTokensAgreeAndSplittingChangesNothing) {
  const std::int64_t tokens = oracle_.facts().at("Tlong");
  const Array<double> x = generated_inputs(geometry_, tokens);
  const GdnState empty(geometry_);
  GdnState end(geometry_);
  const GdnTrace whole = layer_.run(*backend_, x.view(), empty, end);
  expect_equal(whole.out.values(tokens - 8, 8), "f64.out_long_last8");
  expect_state(end, ".t" + std::to_string(tokens - 1));
  expect_convolution_state(end);
  RecordProperty("worst_relative_difference", testing::PrintToString(worst_));

  GdnState state = empty;
  std::int64_t done = 0;
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{2}, std::int64_t{130}, tokens - 133}) {
    GdnState next(geometry_);
    const GdnTrace part = layer_.run(*backend_, x.view().slice_rows(done, count), state, next);
    EXPECT_EQ(part.out.values(), whole.out.values(done, count)) << "from token " << done;
    state = next;
    done += count;
  }
  EXPECT_EQ(state.delta.values(), end.delta.values());
  EXPECT_EQ(state.conv.values(), end.conv.values());
}

INSTANTIATE_TEST_SUITE_P(, GdnLongRunTest, testing::Values("gdn_small"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tandem::test
