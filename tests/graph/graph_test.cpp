#include "graph/model/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/io/geometries.hpp"
#include "graph/model/qwen35.hpp"
#include "tests/graph/expect_error.hpp"

namespace tandem {
namespace {

using testing::HasSubstr;

TEST(Graph, LearnsFromBindWhatANodeTouches) {
  Graph graph;
  const ValueId x = graph.add_input("x", 8, ValueType::real);
  const ValueId y = graph.add_value("y", 2, 4);
  const WeightId w = graph.add_weight({"w", 2, WeightKind::matrix, Shape{4, 8}});
  graph.add_node("project", 2, Part::mlp, [=](const Bindings& b) -> Op {
    return Linear{b.read(x), b.weight(w), {}, b.write(y)};
  });
  const Node& node = graph.nodes().front();
  EXPECT_EQ(node.kind, OpKind::linear);
  EXPECT_THAT(node.reads, testing::ElementsAre(x));
  EXPECT_THAT(node.writes, testing::ElementsAre(y));
  EXPECT_THAT(node.weights, testing::ElementsAre(w));
  EXPECT_FALSE(node.stateful);
  EXPECT_EQ(graph.find("y", 2), y);
  expect_error(ErrorCode::not_found, "no value 'z'", [&] { graph.find("z"); });
}

TEST(Graph, RefusesANodeThatDoesNotFit) {
  Graph graph;
  const ValueId x = graph.add_input("x", 8, ValueType::real);
  const ValueId y = graph.add_value("y", 0, 5);
  const ValueId unwritten = graph.add_value("unwritten", 0, 8);
  const WeightId w = graph.add_weight({"w", 0, WeightKind::matrix, Shape{4, 8}});
  const auto project = [&](ValueId from, ValueId to) {
    graph.add_node("project", 0, Part::mlp, [=](const Bindings& b) -> Op {
      return Linear{b.read(from), b.weight(w), {}, b.write(to)};
    });
  };
  expect_error(ErrorCode::mismatch, "graph node project of layer 0: linear: y is [1, 5], expected [1, 4]",
               [&] { project(x, y); });
  const ValueId right = graph.add_value("right", 0, 4);
  expect_error(ErrorCode::invalid_argument, "reads 'unwritten'", [&] { project(unwritten, right); });
  project(x, right);
  expect_error(ErrorCode::invalid_argument, "writes 'right' a second time", [&] { project(x, right); });
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(Graph, OfThe27BHasItsLayersAndParameters) {
  const ModelConfig config = published_geometry("27B");
  const Graph graph = build_model_graph(config);
  int stateful = 0;
  std::int64_t parameters = 0;
  for (const Node& node : graph.nodes()) stateful += node.stateful ? 1 : 0;
  for (const Weight& weight : graph.weights()) parameters += weight.shape.elements();
  EXPECT_EQ(stateful, 48 * 2 + 16 * 2);  // convolution and recurrence; append and attention
  EXPECT_NEAR(static_cast<double>(parameters), 26.896e9, 0.001e9);
}

TEST(Graph, ATiedHeadUsesTheEmbedding) {
  ModelConfig config = published_geometry("0.8B");
  ASSERT_TRUE(config.tie_word_embeddings);
  const Graph tied = build_model_graph(config);
  EXPECT_EQ(tied.nodes().front().weights, tied.nodes().back().weights);
  config.tie_word_embeddings = false;
  const Graph untied = build_model_graph(config);
  EXPECT_NE(untied.nodes().front().weights, untied.nodes().back().weights);
}

}  // namespace
}  // namespace tandem
