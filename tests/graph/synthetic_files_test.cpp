#include "graph/model/synthetic_files.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/io/checkpoint.hpp"
#include "graph/session/session.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/io/io_test_support.hpp"
#include "tests/properties/model_runs.hpp"

namespace tandem {
namespace {

const std::vector<TokenId> kIds{5, 0, 31, 7, 7};

std::vector<float> logits_of(const std::shared_ptr<const Model>& model) {
  const Context context = two_cpus();
  SessionOptions options;
  options.context_tokens = 8;
  Session session(context, model, options);
  return session.feed(session.open(), kIds, Outputs::all);
}

/// Tied, with attention; tied, in f32; not tied.
const char* const kSpecs[] = {"0.8B:layers=4,vocab=32,seed=3", "0.8B:layers=1,vocab=32,dtype=f32",
                              "9B:layers=1,vocab=32"};

TEST(SyntheticFiles, AWrittenModelIsTheOneInMemory) {
  Threads threads(2);
  for (const char* text : kSpecs) {
    const test::TempDir folder;
    const SyntheticSpec spec = parse_synthetic_spec(text);
    const std::int64_t bytes = write_synthetic_model(spec, folder.path() / "model", threads);
    EXPECT_EQ(Checkpoint::open(folder.path() / "model").total_bytes(), bytes);
    const auto written = Model::open(folder.path() / "model");
    const auto made = make_synthetic_model(spec);
    EXPECT_EQ(written->config(), made->config()) << text;
    EXPECT_EQ(written->fingerprint(), made->fingerprint()) << text;
    EXPECT_EQ(written->weight_bytes(), made->weight_bytes()) << text;
    const std::vector<float> a = logits_of(written), b = logits_of(made);
    ASSERT_EQ(a.size(), kIds.size() * 32);
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << text;
  }
}

TEST(SyntheticFiles, ShardsAreTheSameModel) {
  Threads threads(1);
  const test::TempDir folder;
  const SyntheticSpec spec = parse_synthetic_spec("0.8B:layers=1,vocab=32");
  SyntheticFilesOptions options;
  options.shard_bytes = 16 << 20;
  std::int64_t last = 0;
  options.progress = [&](std::int64_t done, std::int64_t total) {
    EXPECT_GT(done, last);
    EXPECT_LE(done, total);
    last = done;
  };
  EXPECT_EQ(write_synthetic_model(spec, folder.path() / "model", threads, options), last);
  EXPECT_GT(Checkpoint::open(folder.path() / "model").files().size(), 1u);
  EXPECT_EQ(Model::open(folder.path() / "model")->fingerprint(), make_synthetic_model(spec)->fingerprint());
}

TEST(SyntheticFiles, StoreWhatPublishedFilesStoreInF32) {
  Threads threads(1);
  const test::TempDir folder;
  write_synthetic_model(parse_synthetic_spec("0.8B:layers=1,vocab=32"), folder.path() / "model", threads);
  const Checkpoint checkpoint = Checkpoint::open(folder.path() / "model");
  const std::string layer = "model.layers.0.linear_attn.";
  EXPECT_EQ(checkpoint.info(layer + "A_log").dtype, "F32");
  EXPECT_EQ(checkpoint.info(layer + "norm.weight").dtype, "F32");
  EXPECT_EQ(checkpoint.info(layer + "dt_bias").dtype, "BF16");
  EXPECT_EQ(checkpoint.info(layer + "conv1d.weight").dims, (std::vector<std::int64_t>{6144, 1, 4}));
  EXPECT_EQ(checkpoint.info("model.embed_tokens.weight").dtype, "BF16");
  EXPECT_FALSE(checkpoint.contains("lm_head.weight")) << "tied";
}

TEST(SyntheticFiles, AnErrorLeavesNothing) {
  Threads threads(1);
  const test::TempDir folder;
  SyntheticFilesOptions options;
  options.progress = [](std::int64_t, std::int64_t) { fail(ErrorCode::interrupted, "enough"); };
  expect_error(ErrorCode::interrupted, "enough", [&] {
    write_synthetic_model(parse_synthetic_spec("0.8B:layers=1,vocab=32"), folder.path() / "model", threads,
                          options);
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace tandem
