#include "core/weight_pool.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "graph/session/session.hpp"
#include "tests/graph/device_backend.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/properties/mixed_gears.hpp"
#include "tests/properties/model_runs.hpp"

namespace tandem {
namespace {

/// A pool of a device: a layer's mixer of three tensors, and an mlp of two.
class WeightPoolTest : public testing::Test {
 protected:
  static RandomTensor values(const std::string& name, DType dtype, Shape shape) {
    return {dtype, shape, CounterRandom(name, 0), 1, 0};
  }
  static GivenTensor given(const std::string& name, Shape shape, DType dtype = DType::q4) {
    return {name, dtype, shape,
            [=](Backend& backend) { return backend.generate(values(name, dtype, shape)); }};
  }
  static GivenSet mixer() {
    return {"layer 0's gdn",
            {given("qkv", Shape{96, 64}), given("z", Shape{32, 64}), given("out", Shape{64, 32})}};
  }
  static GivenSet mlp() {
    return {"layer 0's mlp", {given("up", Shape{96, 64}), given("down", Shape{64, 96})}};
  }

  void put(const GivenSet& set) { pool_.commit(pool_.stage({&set, 1})); }
  void put_all() {
    const GivenSet both[] = {mixer(), mlp()};
    pool_.commit(pool_.stage(both));
  }
  /// Refused with these words, before anything was loaded, and nothing has changed.
  void expect_refused(ErrorCode code, const std::string& words, const std::vector<GivenSet>& sets) {
    const std::uint64_t taken = device_.taken_bytes();
    const std::int64_t owned = pool_.owned_bytes();
    expect_error(code, words, [&] { pool_.commit(pool_.stage(sets)); });
    EXPECT_EQ(device_.taken_bytes(), taken) << words;
    EXPECT_EQ(pool_.owned_bytes(), owned) << words;
  }

  static constexpr std::int64_t kMixerBytes = (96 * 64 + 32 * 64 + 64 * 32) * 18 / 32;

  DeviceBackend device_{"cuda:0", kPlenty};
  WeightPool pool_{device_,
                   {{"layer 0's gdn", {{"qkv", Shape{96, 64}}, {"z", Shape{32, 64}}, {"out", Shape{64, 32}}}},
                    {"layer 0's mlp", {{"up", Shape{96, 64}}, {"down", Shape{64, 96}}}}}};
};

TEST_F(WeightPoolTest, HoldsWholeSets) {
  put(mixer());
  EXPECT_EQ(pool_.owned_bytes(), kMixerBytes);
  EXPECT_EQ(device_.taken_bytes(), static_cast<std::uint64_t>(kMixerBytes));
  const ConstTensor z = pool_.get(pool_.reference("z"));
  EXPECT_EQ(z.dtype, DType::q4);
  EXPECT_EQ(z.shape, (Shape{32, 64}));
  const HostTensor expected = make_host_tensor("test", values("z", DType::q4, Shape{32, 64}));
  EXPECT_EQ(std::memcmp(z.data, expected.view.data, static_cast<std::size_t>(z.bytes())), 0);
  expect_error(ErrorCode::not_resident, "cuda:0: 'up' is not there in 4 bits; load its set first",
               [&] { pool_.reference("up"); });
  put(mlp());
  EXPECT_NO_THROW(pool_.reference("up"));
}

TEST_F(WeightPoolTest, RefusesAWrongShape) {
  GivenSet set = mixer();
  set.tensors[1] = given("z", Shape{64, 32});  // as many elements
  expect_refused(ErrorCode::mismatch, "'z' of layer 0's gdn is [64, 32], expected [32, 64]", {set});
  set.tensors[1] = given("z", Shape{32, 96});
  expect_refused(ErrorCode::mismatch, "'z' of layer 0's gdn is [32, 96], expected [32, 64]", {mlp(), set});
}

TEST_F(WeightPoolTest, RefusesAMissingKeyAndAHalfGivenSet) {
  for (std::size_t left_out = 0; left_out < 3; ++left_out) {
    GivenSet set = mixer();
    const std::string name = set.tensors[left_out].name;
    set.tensors.erase(set.tensors.begin() + static_cast<std::ptrdiff_t>(left_out));
    expect_refused(ErrorCode::mismatch,
                   "'" + name + "' of layer 0's gdn is missing; a set in 4 bits is given whole",
                   {mlp(), set});
  }
  expect_refused(ErrorCode::mismatch, "'qkv' of layer 0's gdn is missing", {{"layer 0's gdn", {}}});
}

TEST_F(WeightPoolTest, RefusesANameTooMany) {
  GivenSet set = mixer();
  set.tensors.push_back(given("b", Shape{32, 32}));
  expect_refused(ErrorCode::invalid_argument, "layer 0's gdn in 4 bits has no tensor 'b', expected 3 tensors",
                 {set});
  set.tensors.back() = given("up", Shape{96, 64});
  expect_refused(ErrorCode::invalid_argument, "layer 0's gdn in 4 bits has no tensor 'up'", {set});
  expect_refused(ErrorCode::invalid_argument, "layer 1's gdn was not declared in 4 bits",
                 {{"layer 1's gdn", {}}});
  expect_refused(ErrorCode::invalid_argument, "layer 0's mlp is given twice", {mlp(), mlp()});
  put(mlp());
  expect_refused(ErrorCode::invalid_argument,
                 "layer 0's mlp is given twice, or there already: remove it first", {mlp()});
}

TEST_F(WeightPoolTest, RefusesF32BesideAndInsteadOf4Bits) {
  GivenSet both = mixer();
  both.tensors.push_back(given("z", Shape{32, 64}, DType::f32));
  expect_refused(ErrorCode::invalid_argument,
                 "'z' of layer 0's gdn is given twice, in q4 and in f32: give it in 4 bits alone", {both});
  GivenSet instead = mixer();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    instead.tensors[1] = given("z", Shape{32, 64}, dtype);
    expect_refused(ErrorCode::mismatch,
                   "layer 0's gdn was declared in 4 bits, but 'z' is given in " + std::string(name(dtype)),
                   {instead});
  }
}

TEST_F(WeightPoolTest, ReferencesDoNotOutliveWhatTheyMean) {
  put_all();
  const WeightPool::Reference z = pool_.reference("z"), up = pool_.reference("up");
  const auto expect_stale = [&](const WeightPool::Reference& reference, const std::string& name) {
    expect_error(ErrorCode::not_resident,
                 "cuda:0: a reference to '" + name + "' is older than the last change",
                 [&] { pool_.get(reference); });
  };
  pool_.remove("layer 0's gdn");
  expect_stale(z, "z");
  EXPECT_NO_THROW(pool_.get(up)) << "another set";
  put(mixer());
  expect_stale(z, "z");  // a tensor of the same name, shape and bits is there again
  EXPECT_NO_THROW(pool_.get(pool_.reference("z")));
  pool_.clear();
  EXPECT_EQ(pool_.owned_bytes(), 0);
  EXPECT_EQ(device_.used_bytes(), 0u);
  expect_stale(up, "up");
  put_all();
  expect_stale(up, "up");
  expect_stale(z, "z");
}

TEST_F(WeightPoolTest, IsAsBeforeWhenLoadingFailsHalfWay) {
  put(mlp());
  const WeightPool::Reference up = pool_.reference("up");
  const std::uint64_t used = device_.used_bytes();
  for (int successes = 0; successes < 3; ++successes) {
    device_.fail_load_after(successes);
    expect_error(ErrorCode::device_lost, "planted", [&] { put(mixer()); });
    EXPECT_EQ(device_.used_bytes(), used);
    EXPECT_NO_THROW(pool_.get(up));
    expect_error(ErrorCode::not_resident, "'qkv'", [&] { pool_.reference("qkv"); });
  }
  device_.fail_load_after(-1);
  EXPECT_NO_THROW(put(mixer()));
}

TEST_F(WeightPoolTest, IsAsBeforeWhenMemoryRunsOutHalfWay) {
  DeviceBackend small("cuda:0", kMixerBytes - 1);
  WeightPool pool(
      small, {{"layer 0's gdn", {{"qkv", Shape{96, 64}}, {"z", Shape{32, 64}}, {"out", Shape{64, 32}}}}});
  const GivenSet set = mixer();
  expect_error(ErrorCode::out_of_memory, "asked for", [&] { pool.stage({&set, 1}); });
  EXPECT_GT(small.taken_bytes(), 0u) << "half way";
  EXPECT_EQ(small.used_bytes(), 0u);
  EXPECT_EQ(pool.owned_bytes(), 0);
}

TEST_F(WeightPoolTest, RefusesDeclarationsWithoutMeaning) {
  expect_error(ErrorCode::mismatch, "expected a matrix with a multiple of 32 columns", [&] {
    WeightPool(device_, {{"a", {{"x", Shape{4, 40}}}}});
  });
  expect_error(ErrorCode::invalid_argument, "'x' is declared twice", [&] {
    WeightPool(device_, {{"a", {{"x", Shape{4, 32}}}}, {"b", {{"x", Shape{4, 32}}}}});
  });
  expect_error(ErrorCode::invalid_argument, "of a: declared twice", [&] {
    WeightPool(device_, {{"a", {{"x", Shape{4, 32}}}}, {"a", {{"y", Shape{4, 32}}}}});
  });
}

SessionOptions on_the_device() {
  SessionOptions options;
  options.place = "cuda";
  options.context_tokens = 128;
  return options;
}

TEST(PooledSession, TakesTheBytesOf4BitsAndNoOthers) {
  const auto model = open_tiny(Gears::parse("q4"));
  std::int64_t pooled = 0, wide = 0, others = 0;
  for (std::size_t i = 0; i < model->graph().weights().size(); ++i) {
    const Weight& weight = model->graph().weights()[i];
    const std::int64_t bytes = model->weight(static_cast<WeightId>(i)).view.bytes();
    (is_4_bit(weight.gear) ? pooled : others) += bytes;
    if (is_4_bit(weight.gear)) wide += weight.shape.elements() * 4;
  }
  EXPECT_EQ(pooled * 64, wide * 9);
  const Context context = cpu_and_device(kPlenty);
  const Session session(context, model, on_the_device());
  EXPECT_EQ(session.residents().owned_bytes(0), pooled + others);
  const Footprint& footprint = session.planned().footprints[0];
  EXPECT_EQ(footprint.weights, pooled + others);
  // All that was ever taken, not what is left of it: no wide buffer was there for a moment.
  EXPECT_EQ(device_of(context).taken_bytes(), footprint.total());
}

TEST(PooledResidents, AreForgottenWithALostBackendAndLoadedAgain) {
  DeviceBackend device("cuda:0", kPlenty);
  Residents residents(*mixed_gears_model(), {&device});
  const Piece piece(16, Part::mlp);
  residents.load(piece, 0);
  const std::int64_t bytes = residents.owned_bytes(0);
  EXPECT_GT(bytes, 0);
  residents.drop(0);
  EXPECT_FALSE(residents.holds(piece, 0));
  EXPECT_EQ(residents.owned_bytes(0), 0);
  EXPECT_EQ(device.used_bytes(), 0u);
  residents.load(piece, 0);
  EXPECT_TRUE(residents.holds(piece, 0));
  EXPECT_EQ(residents.owned_bytes(0), bytes);
}

TEST(PooledSession, LayersComeAndGoWhole) {
  const Context context = cpu_and_device(kPlenty);
  SessionOptions options = on_the_device();
  Session session(context, mixed_gears_model(), options);
  const std::vector<TokenId> ids = heldout_ids(6);
  const SequenceId sequence = session.open();
  session.feed(sequence, std::span(ids).first(3), Outputs::none);
  const std::uint64_t full = device_of(context).used_bytes();
  for (const int layer : {0, 9, 16, 31}) {
    session.unload(layer, "cuda:0");
    EXPECT_FALSE(session.holds(layer, "cuda:0"));
    EXPECT_LT(device_of(context).used_bytes(), full);
    expect_error(ErrorCode::not_resident, "layer " + std::to_string(layer),
                 [&] { session.feed(sequence, std::span(ids).subspan(3), Outputs::none); });
    device_of(context).fail_load_after(2);
    EXPECT_THROW(session.load(layer, "cuda:0"), Error);
    device_of(context).fail_load_after(-1);
    EXPECT_FALSE(session.holds(layer, "cuda:0"));
    session.load(layer, "cuda:0");
    EXPECT_EQ(device_of(context).used_bytes(), full);
  }
  session.feed(sequence, std::span(ids).subspan(3), Outputs::none);
  RunOptions run;
  run.model = mixed_gears_model();
  Outcome expected = run_tokens(two_cpus(), ids, run);
  expected.logits.clear();
  expect_same(expected, {{}, all_layers(session.state(), sequence)}, "after loading again");
}

}  // namespace
}  // namespace tandem
