#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "graph/session/session_snapshot.hpp"
#include "tests/cuda/device.hpp"
#include "tests/properties/model_runs.hpp"

/// A sequence saved on one side goes on with the same bits on the other, in a split, and back.
namespace tandem {
namespace {

constexpr std::size_t kSavedAt[] = {1, 31, 32, 33, 75};  // a page has 32 tokens
constexpr std::size_t kAfter = 20;

class CudaSnapshot : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICE();
    context_.emplace(cpu_and_gpu());
  }
  ~CudaSnapshot() override { std::filesystem::remove(file_); }

  std::unique_ptr<Session> open(const char* place) const {
    SessionOptions options;
    options.place = place;
    options.residency = Residency::per_layer;
    options.sequences = 2;
    options.context_tokens = 128;
    return std::make_unique<Session>(*context_, tiny_model(), options);
  }

  Outcome go_on(Session& session, SequenceId sequence, std::size_t first) const {
    Outcome outcome;
    outcome.logits = session.feed(sequence, std::span(ids_).subspan(first, kAfter), Outputs::all);
    outcome.layers = all_layers(session.state(), sequence);
    return outcome;
  }

  std::optional<Context> context_;
  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("tandem-cuda-" + std::to_string(::getpid()) + ".tds");
  const std::vector<TokenId> ids_ = heldout_ids(kSavedAt[std::size(kSavedAt) - 1] + 2 * kAfter);
};

TEST_P(CudaSnapshot, GoesOnElsewhereAndBack) {
  const std::unique_ptr<Session> gpu = open("cuda"), other = open(GetParam());
  for (const std::size_t t : kSavedAt) {
    const SequenceId original = gpu->open();
    gpu->feed(original, std::span(ids_).first(t), Outputs::none);
    save_sequence(file_, *gpu, original, std::span(ids_).first(t));
    const SequenceId loaded = load_sequence(*other, Snapshot::open(file_));
    expect_same(go_on(*gpu, original, t), go_on(*other, loaded, t), "loaded at " + std::to_string(t));
    save_sequence(file_, *other, loaded, std::span(ids_).first(t + kAfter));
    const SequenceId back = load_sequence(*gpu, Snapshot::open(file_));
    expect_same(go_on(*gpu, original, t + kAfter), go_on(*gpu, back, t + kAfter),
                "back at " + std::to_string(t));
    for (const SequenceId id : {original, back}) gpu->close(id);
    other->close(loaded);
  }
}

INSTANTIATE_TEST_SUITE_P(Places, CudaSnapshot, testing::Values("cuda", "cpu", "cpu,cuda:gdn", "cuda,cpu:2-5"),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace tandem
