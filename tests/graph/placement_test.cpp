#include "graph/placement/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/random.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/placement/plan.hpp"
#include "graph/placement/workspace.hpp"
#include "graph/run/residents.hpp"
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
  expect_error(ErrorCode::invalid_argument, "expected a layer, a range", parse("cpu,other:1:2"));
  expect_error(ErrorCode::invalid_argument, "expected a layer, a range", parse("cpu,other:mlp:2"));
  expect_error(ErrorCode::invalid_argument, "expected a layer, a range", parse("cpu,other:0-3:head"));
  expect_error(ErrorCode::invalid_argument, "expected a layer, a range", parse("cpu,other:0-3:mlp:1"));
  expect_error(ErrorCode::invalid_argument, "no rule says where layer 0's gdn goes", parse("other:1-7"));
  expect_error(ErrorCode::invalid_argument, "no rule says where layer 7's gdn goes", parse("other:0-6"));
}

const std::vector<std::string> kDevices{"cpu", "cuda:0", "cuda:1"};

TEST(Placement, NamesDevices) {
  const auto gdn_of_layer_5 = [](const char* text) {
    return Placement::parse(text, kDevices, 8).of(5, Part::gdn).backend;
  };
  EXPECT_EQ(gdn_of_layer_5("cuda"), 1);
  EXPECT_EQ(gdn_of_layer_5("cuda:0"), 1);
  EXPECT_EQ(gdn_of_layer_5("cuda:1"), 2);
  EXPECT_EQ(gdn_of_layer_5("cpu,cuda:4-7"), 1);
  EXPECT_EQ(gdn_of_layer_5("cpu,cuda:5-5"), 1);
  EXPECT_EQ(gdn_of_layer_5("cpu,cuda:0:5"), 1);
  EXPECT_EQ(gdn_of_layer_5("cpu,cuda:1:4-7"), 2);
  EXPECT_EQ(gdn_of_layer_5("cpu,cuda:1:4-4"), 0);
  EXPECT_EQ(gdn_of_layer_5("cpu,cuda:gdn"), 1);
  EXPECT_EQ(gdn_of_layer_5("cpu,cuda:1:gdn"), 2);
  EXPECT_EQ(gdn_of_layer_5("cpu,cuda:1:0-5:gdn"), 2);
  EXPECT_EQ(gdn_of_layer_5("cpu,cuda:1:0-5:mlp"), 0);
  EXPECT_EQ(gdn_of_layer_5("cpu,cuda:5-5:gdn"), 1);
  EXPECT_EQ(gdn_of_layer_5("cuda:0:0-5,cuda:1:6-7"), 1);
}

TEST(Placement, SaysWhichDevicesThereAre) {
  const std::vector<AbsentBackend> absent{{"cuda", "built without CUDA"}};
  expect_error(ErrorCode::unsupported,
               "no backend 'cuda:5' here; there are: cpu, cuda:0, cuda:1; layer 5 alone is written cuda:5-5",
               [] { Placement::parse("cpu,cuda:5", kDevices, 8); });
  for (const char* text : {"cuda", "cuda:0", "cpu,cuda:gdn", "cuda:0-3,cpu:4-7"}) {
    expect_error(ErrorCode::unsupported, "no backend 'cuda' here (built without CUDA); there are: cpu, other",
                 [&] { Placement::parse(text, kNames, 8, absent); });
  }
}

TEST(Placement, EmbeddingAndHeadGoBesideTheirLayers) {
  const Placement placement = Placement::parse("cuda:0-3,cpu:4-7", kDevices, 8);
  EXPECT_EQ(placement.of(kNoLayer, Part::embedding).backend, 1);
  EXPECT_EQ(placement.of(kNoLayer, Part::embedding).reason, "no rule for it: where layer 0's gdn is placed");
  EXPECT_EQ(placement.of(kNoLayer, Part::head).backend, 0);
  EXPECT_EQ(placement.of(kNoLayer, Part::head).reason, "no rule for it: where layer 7's mlp is placed");
  const Placement told = Placement::parse("cuda:0-3,cpu:4-7,cpu:embedding,cuda:1:head", kDevices, 8);
  EXPECT_EQ(told.of(kNoLayer, Part::embedding).backend, 0);
  EXPECT_EQ(told.of(kNoLayer, Part::head).backend, 2);
}

TEST(Placement, OfTheLastLayersIsWrittenAsRules) {
  EXPECT_EQ(last_layers_on("cuda:0", "cpu", 0, 8), "cpu");
  EXPECT_EQ(last_layers_on("cuda:0", "cpu", 3, 8), "cpu,cuda:0:5-7");
  EXPECT_EQ(last_layers_on("cuda:0", "cpu", 8, 8), "cpu,cuda:0:0-7");
  EXPECT_EQ(last_layers_on("cuda:0", "cpu", 9, 8), "cuda:0");
}

class PlanTest : public testing::Test {
 protected:
  Plan plan(const char* text) const {
    return make_plan(model_->graph(), weight_sizes(*model_), state_geometry(model_->config(), DType::f32),
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

TEST_F(PlanTest, CrossingBytesAreCountedByTheKindOfRow) {
  Graph graph;
  const ValueId x = graph.add_input("x", 8, ValueType::real, Rows::outputs);
  const ValueId y = graph.add_value("y", 0, 4, Rows::outputs);
  const ValueId z = graph.add_value("z", kNoLayer, 2, Rows::outputs);
  const auto project = [&](int layer, Part part, ValueId from, WeightId weight, ValueId to) {
    graph.add_node("project", layer, part, [=](const Bindings& b) -> Op {
      return Linear{b.read(from), b.weight(weight), {}, b.write(to)};
    });
  };
  project(0, Part::mlp, x, graph.add_weight({"up", 0, WeightKind::matrix, Shape{4, 8}}), y);
  project(kNoLayer, Part::head, y, graph.add_weight({"head", kNoLayer, WeightKind::matrix, Shape{2, 4}}), z);
  for (const DType real : {DType::f32, DType::f64}) {
    const Plan split = make_plan(graph, weight_sizes(graph), state_geometry(model_->config(), real),
                                 Placement::parse("cpu,other:head", kNames, 1), kNames, 1);
    EXPECT_EQ(split.crossings_per_step, 1);
    EXPECT_EQ(split.crossing_bytes_per_token, 0);
    EXPECT_EQ(split.crossing_bytes_per_output, 4 * static_cast<std::int64_t>(size_of(real)));
  }
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
  Residents residents(*model_, {&context.backend(0), &context.backend(1)});
  const Plan split = plan("cpu,other:0-3");
  residents.load(split);
  const WeightId first = model_->graph().nodes()[1].weights.front();  // of layer 0
  EXPECT_TRUE(residents.holds(1, first));
  EXPECT_FALSE(residents.holds(0, first));
  expect_error(ErrorCode::not_resident, "is not loaded there", [&] { residents.get(0, first); });
  EXPECT_EQ(residents.owned_bytes(0), 0) << "the CPU uses the mapping in place";
}

}  // namespace
}  // namespace tandem
