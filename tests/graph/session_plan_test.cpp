#include "graph/placement/session_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "backends/cpu/cpu_backend.hpp"
#include "core/io/geometries.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/placement/auto_place.hpp"
#include "graph/session/session.hpp"
#include "tests/graph/device_backend.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/properties/model_runs.hpp"

namespace tandem {
namespace {

using testing::HasSubstr;

SessionOptions placed(const std::string& place) {
  SessionOptions options;
  options.place = place;
  options.context_tokens = 128;
  return options;
}

SessionPlan plan_tiny(const Context& context, const SessionOptions& options) {
  const Model& model = *tiny_model();
  return plan_session(context, model.config(), model.graph(), weight_sizes(model), options);
}

Context cpu_alone(const std::string& why) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_cpu_backend({.name = "cpu", .threads = 1, .variant = ""}));
  return Context(std::move(backends), {{"cuda", why}});
}

/// What the device must have for the last `count` layers; 9: everything.
std::uint64_t device_need(std::int64_t count) {
  const Context context = cpu_and_device(kPlenty);
  return plan_tiny(context, placed(last_layers_on("cuda:0", "cpu", count, 8))).footprints.back().total();
}

/// The plan's bytes are those that the session takes, on a device to the byte.
void expect_foreseen(SessionOptions options) {
  const Context context = cpu_and_device(kPlenty);
  options.sequences = 2;
  options.kept_versions = 3;
  options.limits = {16, 4};
  const Session session(context, tiny_model(), options);
  const SessionPlan& planned = session.planned();
  for (std::size_t b = 0; b < planned.backends.size(); ++b) {
    const Footprint& f = planned.footprints[b];
    EXPECT_EQ(f.weights, session.residents().owned_bytes(static_cast<int>(b)));
    EXPECT_EQ(f.state, session.state().usage()[b].reserved_bytes);
    EXPECT_EQ(f.workspace, session.executor().workspace_bytes(static_cast<int>(b)));
    if (planned.backends[b]->info().host_memory) {
      EXPECT_EQ(f.weights, 0);
    } else {
      EXPECT_EQ(f.total(), device_of(context).used_bytes());
    }
  }
}

class Foreseen : public testing::TestWithParam<const char*> {};

TEST_P(Foreseen, IsWhatASessionTakes) {
  SessionOptions options = placed(GetParam());
  expect_foreseen(options);
  options.homes = {"cuda"};
  expect_foreseen(options);
  options.homes = {"cpu", "cuda:0"};
  expect_foreseen(options);
}
INSTANTIATE_TEST_SUITE_P(SessionPlan, Foreseen,
                         testing::Values("cpu", "cuda", "cpu,cuda:0:4-7", "cuda:gdn,cpu:mlp,cpu:attention",
                                         "cuda,cpu:embedding", "cpu,cuda:0:3"));

TEST(SessionPlan, HomesHaveRoomForEveryLayer) {
  const Context context = cpu_and_device(kPlenty);
  SessionOptions options = placed("cpu,cuda:4-7");
  const SessionPlan fixed = plan_tiny(context, options);
  options.homes = {"cuda"};
  const SessionPlan roomy = plan_tiny(context, options);
  const std::int64_t all = plan_tiny(context, placed("cuda")).footprints.back().state;
  EXPECT_FALSE(fixed.plan.movable());
  EXPECT_TRUE(roomy.plan.movable());
  EXPECT_EQ(roomy.footprints[0].state, fixed.footprints[0].state);
  EXPECT_EQ(roomy.footprints[1].state, all);
  EXPECT_EQ(roomy.footprints[1].weights, fixed.footprints[1].weights);

  options.place = "cpu";  // the device holds nothing until something is loaded or moves there
  const SessionPlan spare = plan_tiny(context, options);
  ASSERT_EQ(spare.footprints.size(), 2u);
  EXPECT_EQ(spare.footprints[1].state, all);
  EXPECT_EQ(spare.footprints[1].weights, 0);
  EXPECT_EQ(spare.residency, Residency::uniform);
  options.homes = {"tpu"};
  expect_error(ErrorCode::unsupported, "no backend 'tpu'", [&] { plan_tiny(context, options); });
}

TEST(SessionPlan, HomesThatDoNotFitAreRefusedBeforeAnythingIsLoaded) {
  SessionOptions options = placed("cpu");
  options.homes = {"cuda"};
  const std::uint64_t need = plan_tiny(cpu_and_device(kPlenty), options).footprints[1].total();
  const Context context = cpu_and_device(need - 1);
  expect_error(ErrorCode::out_of_memory, "1 bytes too much",
               [&] { Session(context, tiny_model(), options); });
  EXPECT_EQ(device_of(context).used_bytes(), 0u);
  EXPECT_NO_THROW(Session(cpu_and_device(need), tiny_model(), options));
}

TEST(SessionPlan, TheHeadersOfTheFilesTellTheSizes) {
  const Model& model = *tiny_model();
  const auto directory = std::filesystem::path(std::getenv("TANDEM_MODELS")) / "tiny";
  EXPECT_EQ(weight_sizes(model.graph(), ModelFiles(directory)), weight_sizes(model));
  EXPECT_EQ(weight_sizes(model.graph()), weight_sizes(model)) << "it is stored in bf16";
}

TEST(SessionPlan, ATiedHeadIsCountedOnceOnABackend) {
  const Context context = cpu_and_device(kPlenty);
  const std::int64_t together = plan_tiny(context, placed("cuda")).footprints[0].weights;
  EXPECT_EQ(together, tiny_model()->weight_bytes());
  const SessionPlan apart = plan_tiny(context, placed("cuda,cpu:head"));
  const std::int64_t norm = 192 * 4;
  EXPECT_EQ(apart.footprints[1].weights, together - norm);
  EXPECT_EQ(apart.footprints[0].in_place, 2048 * 192 * 2 + norm);
}

TEST(SessionPlan, IsRefusedBeforeAnythingIsLoaded) {
  const std::uint64_t need = device_need(9);
  const Context context = cpu_and_device(need - 1);
  expect_error(ErrorCode::out_of_memory, ": 1 bytes too much",
               [&] { const Session session(context, tiny_model(), placed("cuda")); });
  expect_error(ErrorCode::out_of_memory, "cuda:0: needs " + human_bytes(need),
               [&] { const Session session(context, tiny_model(), placed("cuda")); });
  EXPECT_EQ(device_of(context).loads(), 0);
  EXPECT_EQ(device_of(context).used_bytes(), 0u);
  EXPECT_NO_THROW(Session(cpu_and_device(need), tiny_model(), placed("cuda")));
}

TEST(SessionPlan, AutoTakesWhatFits) {
  const std::uint64_t three = device_need(3);
  ASSERT_LT(three, device_need(4));
  const Context context = cpu_and_device(three);
  const SessionPlan planned = plan_tiny(context, placed("auto"));
  EXPECT_EQ(planned.placement, "cpu,cuda:0:5-7");
  EXPECT_EQ(planned.plan.state_home, (std::vector<int>{0, 0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(planned.plan.lines.back().reason, "auto: the last 3 of 8 layers fit in " + human_bytes(three));
  EXPECT_EQ(planned.note, "");
  EXPECT_NO_THROW(Session(context, tiny_model(), placed("auto")));

  EXPECT_EQ(plan_tiny(cpu_and_device(device_need(4) - 1), placed("auto")).placement, "cpu,cuda:0:5-7");
  EXPECT_EQ(plan_tiny(cpu_and_device(device_need(9)), placed("auto")).placement, "cuda:0");
  EXPECT_THAT(plan_tiny(cpu_and_device(kPlenty), placed("auto")).plan.lines[0].reason,
              HasSubstr("auto: all 8 layers, embedding and head fit in 1.00 GiB"));
  const SessionPlan none = plan_tiny(cpu_and_device(1000), placed("auto"));
  EXPECT_EQ(none.placement, "cpu");
  EXPECT_EQ(none.note, "auto: everything runs on cpu: no layer fits in 1000 bytes of cuda:0");
}

TEST(SessionPlan, AutoWithoutADeviceSaysWhy) {
  const Context context = cpu_alone("no CUDA device");
  const SessionPlan planned = plan_tiny(context, placed("auto"));
  EXPECT_EQ(planned.placement, "cpu");
  EXPECT_EQ(planned.plan.lines[0].reason, "auto: no device (cuda: no CUDA device)");
  EXPECT_EQ(planned.note, "auto: everything runs on cpu: no device (cuda: no CUDA device)");
  expect_error(ErrorCode::unsupported, "no backend 'cuda' here (no CUDA device); there are: cpu",
               [&] { plan_tiny(context, placed("cpu,cuda:0:3")); });
}

TEST(SessionPlan, GpuLayersAreTheLastOnes) {
  const Context context = cpu_and_device(kPlenty);
  EXPECT_EQ(gpu_layers_rules(context, 0, 8), "cpu");
  EXPECT_EQ(gpu_layers_rules(context, 1, 8), "cpu,cuda:0:7-7");
  EXPECT_EQ(gpu_layers_rules(context, 8, 8), "cpu,cuda:0:0-7");
  EXPECT_EQ(gpu_layers_rules(context, 9, 8), "cuda:0");
  EXPECT_EQ(gpu_layers_rules(context, 999, 8), "cuda:0");
  const Plan one = plan_tiny(context, placed(gpu_layers_rules(context, 1, 8))).plan;
  EXPECT_EQ(one.state_home, (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 1}));
  expect_error(ErrorCode::unsupported, "--gpu-layers 3: no device (cuda: built without CUDA)",
               [] { gpu_layers_rules(cpu_alone("built without CUDA"), 3, 8); });
}

TEST(SessionPlan, ResidencyFollowsTheStatesHomes) {
  const Context context = cpu_and_device(kPlenty);
  EXPECT_EQ(plan_tiny(context, placed("cuda")).residency, Residency::uniform);
  EXPECT_EQ(plan_tiny(context, placed("cuda,cpu:mlp,cpu:head")).residency, Residency::uniform);
  EXPECT_EQ(plan_tiny(context, placed("cpu,cuda:4-7")).residency, Residency::per_layer);
  Session session(context, tiny_model(), placed("cpu,cuda:4-7"));
  EXPECT_NO_THROW(session.open());
}

TEST(SessionPlan, ResidencyFollowsTheHomesThatAreNamed) {
  const Context context = cpu_and_device(kPlenty);
  SessionOptions options = placed("cpu");
  for (const std::vector<std::string>& one :
       {std::vector<std::string>{"cpu"}, {"cuda"}, {"cuda", "cuda:0"}}) {
    options.homes = one;
    EXPECT_EQ(plan_tiny(context, options).residency, Residency::uniform) << one.front();
  }
  options.homes = {"cuda"};
  options.mirror_every = 4;  // which needs a home in host memory: one for all of a sequence
  EXPECT_EQ(plan_tiny(context, options).residency, Residency::uniform);
  options.homes = {"cpu", "cuda:0"};
  EXPECT_EQ(plan_tiny(context, options).residency, Residency::per_layer);
  options.residency = Residency::uniform;
  EXPECT_EQ(plan_tiny(context, options).residency, Residency::uniform) << "it was asked for";
}

TEST(SessionPlan, TheDefaultsAllowAForkAndTheMoveOfOneLayer) {
  const Context context = cpu_and_device(kPlenty);
  SessionOptions options;
  options.homes = {"cpu", "cuda:0"};
  Session session(context, tiny_model(), options);
  const SequenceId first = session.open();
  const SequenceId second = session.fork(first);
  EXPECT_NO_THROW(session.migrate(second, {3}, "cuda:0"));
}

TEST(SessionPlan, CrossingsAreCountedByTheirRows) {
  // hidden [192] goes up once a token; the head's picked rows stay where they are.
  const Context context = cpu_and_device(kPlenty);
  const Plan up = plan_tiny(context, placed("cpu,cuda:4-7,cuda:head")).plan;
  EXPECT_EQ(up.crossings_per_step, 1);
  EXPECT_EQ(up.crossing_bytes_per_token, 192 * 4);
  EXPECT_EQ(up.crossing_bytes_per_output, 0);
}

TEST(SessionPlan, OfThe27BTakesNoTime) {
  const ModelConfig config = published_geometry("27B");
  const Graph graph = build_model_graph(config);
  const WeightSizes sizes = weight_sizes(graph);
  const Context context = cpu_and_device(std::uint64_t{24} << 30);
  const auto start = std::chrono::steady_clock::now();
  const SessionPlan planned = plan_session(context, config, graph, sizes, placed("auto"));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 5.0) << "generous, for sanitizers";
  RecordProperty("seconds", std::to_string(taken.count()));
  EXPECT_THAT(planned.plan.lines.back().reason, HasSubstr("of 64 layers fit in 24.00 GiB"));
  EXPECT_LE(planned.footprints[1].total(), std::uint64_t{24} << 30);
}

}  // namespace
}  // namespace tandem
