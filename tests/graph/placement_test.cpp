#include "graph/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/random.hpp"
#include "graph/plan.hpp"
#include "graph/qwen35.hpp"
#include "graph/residents.hpp"
#include "graph/workspace.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/properties/model_runs.hpp"

namespace tandem {
namespace {

const std::vector<std::string> kNames{"cpu", "other"};

TEST(Placement, LaterRulesOverrideEarlierOnes) {
  const Placement placement = Placement::parse("cpu,other:2-5,cpu:mlp,other:3,other:head", kNames, 8);
  EXPECT_EQ(placement.of(1, Part::gdn).backend, 0);
  EXPECT_EQ(placement.of(2, Part::gdn).backend, 1);
  EXPECT_EQ(placement.of(2, Part::mlp).backend, 0);
  EXPECT_EQ(placement.of(3, Part::mlp).backend, 1);
  EXPECT_EQ(placement.of(5, Part::attention).backend, 1);
  EXPECT_EQ(placement.of(6, Part::attention).backend, 0);
  EXPECT_EQ(placement.of(kNoLayer, Part::head).backend, 1);
  EXPECT_EQ(placement.of(kNoLayer, Part::embedding).backend, 0);
  EXPECT_EQ(placement.of(3, Part::mlp).reason, "asked for: other:3");
}

TEST(Placement, RefusesWhatItCannotRead) {
  const auto parse = [](const char* text) { return [=] { Placement::parse(text, kNames, 8); }; };
  expect_error(ErrorCode::unsupported, "no backend 'gpu' here; there are: cpu, other", parse("gpu"));
  expect_error(ErrorCode::unsupported, "no backend ''", parse(""));
  expect_error(ErrorCode::unsupported, "no backend ''", parse("cpu,"));
  expect_error(ErrorCode::invalid_argument, "expected a layer, a range", parse("cpu,other:5-2"));
  expect_error(ErrorCode::invalid_argument, "expected a layer, a range", parse("cpu,other:all"));
  expect_error(ErrorCode::invalid_argument, "layer 8 of a model of 8 layers", parse("cpu,other:7-8"));
  expect_error(ErrorCode::invalid_argument, "no rule says where", parse("other:0-7"));
}

class PlanTest : public testing::Test {
 protected:
  Plan plan(const char* text) const {
    return make_plan(model_->graph(), *model_, state_geometry(model_->config(), DType::f32),
                     Placement::parse(text, kNames, 8), kNames, 128);
  }

  std::shared_ptr<const Model> model_ = tiny_model();
};

TEST_F(PlanTest, OneBackendCrossesNothing) {
  const Plan one = plan("cpu");
  EXPECT_EQ(one.crossings_per_step, 0);
  std::int64_t weights = 0;
  for (const PlanLine& line : one.lines) weights += line.weight_bytes;
  EXPECT_EQ(weights, model_->weight_bytes());
}

TEST_F(PlanTest, ASplitInTheMiddleCrossesOnceEachWay) {
  // The embedding crosses to layer 0 on `other`, its residual stream comes back at layer 4.
  const Plan split = plan("cpu,other:0-3");
  EXPECT_EQ(split.crossings_per_step, 2);
  EXPECT_EQ(split.crossing_bytes_per_token, 2 * 192 * 4);
  EXPECT_EQ(split.state_home, (std::vector<int>{1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_THAT(to_text(split), testing::HasSubstr("asked for: other:0-3"));
}

/// Values that are alive together never share memory, on any backend of any placement.
TEST_F(PlanTest, WorkspaceKeepsLiveValuesApart) {
  const Context context = two_cpus();
  const std::vector<Backend*> backends{&context.backend(0), &context.backend(1)};
  const StepLimits limits{3, 2};
  for (const char* text : {"cpu", "cpu,other:gdn", "cpu,other:0,other:2,other:4", "other,cpu:mlp,cpu:head"}) {
    const Plan p = plan(text);
    const Workspace workspace(model_->graph(), p, backends, limits);
    const std::vector<Node>& nodes = model_->graph().nodes();
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      // What a node reads and what it writes, as ranges of bytes.
      std::vector<std::pair<char*, char*>> ranges;
      for (const std::vector<ValueId>* ids : {&nodes[n].reads, &nodes[n].writes}) {
        for (ValueId id : *ids) {
          const Value& value = model_->graph().value(id);
          ASSERT_TRUE(workspace.has(p.node_backend[n], id)) << text << ": " << nodes[n].name;
          char* begin = static_cast<char*>(workspace.at(p.node_backend[n], id));
          ranges.emplace_back(begin, begin + (value.rows == Rows::tokens ? 3 : 2) * value.width * 4);
        }
      }
      std::sort(ranges.begin(), ranges.end());
      for (std::size_t i = 1; i < ranges.size(); ++i) {
        EXPECT_LE(ranges[i - 1].second, ranges[i].first)
            << text << ": " << nodes[n].name << " of layer " << nodes[n].layer;
      }
    }
  }
}

TEST_F(PlanTest, AWeightThatIsNotLoadedIsNotResident) {
  const Context context = two_cpus();
  Residents residents({&context.backend(0), &context.backend(1)});
  const Plan split = plan("cpu,other:0-3");
  residents.load(*model_, split);
  const WeightId first = model_->graph().nodes()[1].weights.front();  // of layer 0
  EXPECT_TRUE(residents.holds(1, first));
  EXPECT_FALSE(residents.holds(0, first));
  expect_error(ErrorCode::not_resident, "is not loaded there", [&] { residents.get(0, first); });
  EXPECT_EQ(residents.owned_bytes(0), 0) << "the CPU uses the mapping in place";
}

}  // namespace
}  // namespace tandem
