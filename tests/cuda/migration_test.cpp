#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <thread>

#include "core/random.hpp"
#include "graph/model/synthetic.hpp"
#include "graph/run/step_observer.hpp"
#include "tests/cuda/device.hpp"
#include "tests/properties/model_runs.hpp"

/// State that moves between CPU and GPU in the middle of a text cannot be seen in it: 0 elements differ.
namespace tandem {
namespace {

constexpr std::size_t kBoundaries = 65;

std::vector<TokenId> some_ids(const Model& model, std::size_t count) {
  const CounterRandom random("ids", 2);
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(
        static_cast<TokenId>(random.bits(i) % static_cast<std::uint64_t>(model.config().vocab_size)));
  }
  return ids;
}

/// A session whose layers are loaded on both sides.
class CudaMigration : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICE();
    start(tiny_model());
  }

  void start(std::shared_ptr<const Model> model) {
    ids_ = some_ids(*model, kBoundaries + 8);
    layers_ = static_cast<int>(model->config().num_hidden_layers);
    context_.emplace(cpu_and_gpu());
    SessionOptions options;
    options.homes = {"cpu", "cuda:0"};
    options.residency = Residency::per_layer;
    options.sequences = 3;
    options.kept_versions = 3;
    options.context_tokens = 128;
    session_ = std::make_unique<Session>(*context_, std::move(model), options);
    for (int layer = 0; layer < layers_; ++layer) session_->load(layer, "cuda:0");
  }

  std::vector<float> feed(SequenceId sequence, std::size_t first, std::size_t count) {
    return session_->feed(sequence, std::span(ids_).subspan(first, count), Outputs::all);
  }

  Outcome undisturbed(SequenceId sequence, std::size_t first, std::size_t count) {
    const SequenceId fork = session_->fork(sequence);
    Outcome outcome{feed(fork, first, count), all_layers(session_->state(), fork)};
    session_->close(fork);
    return outcome;
  }

  /// To the other side for some tokens, and back for as many.
  Outcome there_and_back(SequenceId sequence, std::size_t first, std::size_t count,
                         const std::vector<int>& layers) {
    const SequenceId fork = session_->fork(sequence);
    const std::string home = session_->state().home(sequence, 0) == 0 ? "cpu" : "cuda:0";
    session_->migrate(fork, layers, home == "cpu" ? "cuda:0" : "cpu");
    Outcome outcome{feed(fork, first, count), {}};
    session_->migrate(fork, layers, home);
    const std::vector<float> back = feed(fork, first + count, count);
    outcome.logits.insert(outcome.logits.end(), back.begin(), back.end());
    outcome.layers = all_layers(session_->state(), fork);
    session_->close(fork);
    return outcome;
  }

  /// Each layer, and all of them, at every token of a sequence that lives on `home`.
  void expect_no_trace(const std::string& home, std::size_t count) {
    const SequenceId sequence = session_->open();
    session_->migrate(sequence, {}, home);
    for (std::size_t t = 0; t < kBoundaries; ++t) {
      const Outcome expected = undisturbed(sequence, t, 2 * count);
      for (int layer = 0; layer < layers_; ++layer) {
        expect_same(expected, there_and_back(sequence, t, count, {layer}),
                    "layer " + std::to_string(layer) + " at token " + std::to_string(t));
      }
      expect_same(expected, there_and_back(sequence, t, count, {}),
                  "all layers at token " + std::to_string(t));
      feed(sequence, t, 1);
    }
  }

  int layers_ = 0;
  std::vector<TokenId> ids_;
  std::optional<Context> context_;
  std::unique_ptr<Session> session_;
};

TEST_F(CudaMigration, EveryLayerAtEveryTokenFromTheCpuAndBack) { expect_no_trace("cpu", 2); }

TEST_F(CudaMigration, EveryLayerAtEveryTokenFromTheGpuAndBack) { expect_no_trace("cuda:0", 2); }

/// Four layers of the 27B's sizes, one of them attention.
TEST_F(CudaMigration, LayersOf27BAtEveryToken) {
  session_.reset();
  start(make_synthetic_model(parse_synthetic_spec("27B:layers=4,vocab=512")));
  ASSERT_EQ(layers_, 4);
  expect_no_trace("cpu", 1);
}

TEST_F(CudaMigration, MovesAsManyBytesAsItSays) {
  const SequenceId sequence = session_->open();
  feed(sequence, 0, 40);
  feed(sequence, 40, 1);
  const Backend &cpu = context_->backend(0), &gpu = context_->backend(1);
  const Traffic before = gpu.traffic(), host = cpu.traffic();
  const MigrationReport there = session_->migrate(sequence, {}, "cuda:0");
  const Traffic between = gpu.traffic();
  EXPECT_EQ(between.uploaded - before.uploaded, static_cast<std::uint64_t>(there.bytes));
  EXPECT_EQ(between.downloaded, before.downloaded) << "only checksums are read back";
  EXPECT_GT(between.checksums, before.checksums);
  EXPECT_GT(there.bytes, 0);
  EXPECT_EQ(there.layers.size(), static_cast<std::size_t>(layers_));
  const MigrationReport back = session_->migrate(sequence, {}, "cpu");
  EXPECT_EQ(back.bytes, there.bytes);
  EXPECT_EQ(gpu.traffic().uploaded, between.uploaded);
  EXPECT_EQ(gpu.traffic().downloaded - between.downloaded, static_cast<std::uint64_t>(back.bytes));
  EXPECT_EQ(cpu.traffic(), host) << "the device copies by itself";
  for (std::size_t i = 0; i < there.layers.size(); ++i)
    EXPECT_EQ(there.layers[i].versions, back.layers[i].versions) << "layer " << i;
}

TEST_F(CudaMigration, ALostLayerFollowsItsPolicy) {
  for (MissPolicy policy : {MissPolicy::migrate, MissPolicy::replay}) {
    const SequenceId sequence = session_->open(policy);
    feed(sequence, 0, 20);
    const Outcome expected = undisturbed(sequence, 20, 6);
    session_->unload(2, "cpu");
    session_->unload(3, "cpu");
    Outcome found{feed(sequence, 20, 6), {}};
    found.layers = all_layers(session_->state(), sequence);
    expect_same(expected, found, std::string(name(policy)));
    EXPECT_EQ(session_->state().home(sequence, 2), 1);
    EXPECT_EQ(session_->state().home(sequence, 3), 1);
    session_->load(2, "cpu");
    session_->load(3, "cpu");
    session_->close(sequence);
  }
}

/// What every part of every step took, by backend.
struct PartTimes final : StepObserver {
  void step(const ObservedStep& step) override {
    for (const ObservedRun& run : step.runs) {
      for (const ObservedPart& part : run.parts) times[part.backend].push_back(part.time);
    }
  }
  void residency(const ResidencyEvent&, const TimeSpan&) override {}

  /// Pairs of a part on the CPU and one on the GPU that ran at the same time.
  int overlaps() const {
    int count = 0;
    for (const TimeSpan& a : times[0]) {
      for (const TimeSpan& b : times[1]) count += a.begin_ms < b.end_ms && b.begin_ms < a.end_ms ? 1 : 0;
    }
    return count;
  }

  std::array<std::vector<TimeSpan>, 2> times;
};

/// A thread drives one sequence on the CPU, another one a sequence on the GPU: both compute at the same time,
/// and neither sees the other.
TEST_F(CudaMigration, TwoThreadsOneOnEachSide) {
  session_->load(Part::embedding, "cuda:0");
  session_->load(Part::head, "cuda:0");
  const SequenceId on_cpu = session_->open(), on_gpu = session_->open();
  session_->migrate(on_gpu, {}, "cuda:0");
  std::vector<float> found[2];
  PartTimes parts;
  session_->observe(&parts);
  const auto drive = [&](SequenceId sequence, std::vector<float>& logits) {
    for (std::size_t t = 0; t < 60; ++t) {
      const std::vector<float> row = feed(sequence, t, 1);
      logits.insert(logits.end(), row.begin(), row.end());
    }
  };
  std::thread one([&] { drive(on_cpu, found[0]); }), two([&] { drive(on_gpu, found[1]); });
  one.join();
  two.join();
  session_->observe(nullptr);
  EXPECT_GT(parts.overlaps(), 100) << "one step waited for the other to end";
  const Outcome expected = run_tokens(*context_, std::span(ids_).first(60), {});
  expect_same(expected, {found[0], all_layers(session_->state(), on_cpu)}, "on the CPU");
  expect_same(expected, {found[1], all_layers(session_->state(), on_gpu)}, "on the GPU");
}

}  // namespace
}  // namespace tandem
