#include "tests/cuda/device.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "state/state_manager.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/properties/model_runs.hpp"

/// The device as a backend: memory, transfers, marks, errors.
namespace tandem {
namespace {

std::vector<float> some_floats(std::size_t count) {
  std::vector<float> values(count);
  const CounterRandom random("floats", count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(random.normal(i));
  return values;
}

TEST(CudaDevice, ADeviceThatIsNotThereIsRefusedByName) {
  expect_error(ErrorCode::unsupported, "cuda:99", [] { make_cuda_backend({.device = 99}); });
}

TEST(CudaDevice, AnUnknownVariantIsRefusedByName) {
  SKIP_WITHOUT_DEVICE();
  expect_error(ErrorCode::unsupported, "'avx2'", [] { make_cuda_backend({.variant = "avx2"}); });
}

TEST(CudaDevice, MemoryGoesThereAndBack) {
  SKIP_WITHOUT_DEVICE();
  const auto backend = make_cuda_backend({});
  for (std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{40} << 20}) {
    const std::vector<float> sent = some_floats(count);
    const std::size_t bytes = count * sizeof(float);
    const Buffer a = backend->allocate(bytes), b = backend->allocate(bytes);
    backend->upload(a.data(), sent.data(), bytes);
    backend->copy(b.data(), a.data(), bytes);
    std::vector<float> found(count);
    backend->download(found.data(), b.data(), bytes);
    EXPECT_EQ(sent, found);
  }
}

TEST(CudaDevice, StagingMemoryCrossesInOrderWithoutWaiting) {
  SKIP_WITHOUT_DEVICE();
  constexpr std::size_t kCount = 1 << 20, kBytes = kCount * sizeof(float);
  const auto backend = make_cuda_backend({});
  const Buffer there = backend->allocate_staging(kBytes), back = backend->allocate_staging(kBytes);
  const Buffer device = backend->allocate(kBytes);
  const std::vector<float> sent = some_floats(kCount);
  std::memcpy(there.data(), sent.data(), kBytes);
  const auto before = backend->record();
  backend->send(device.data(), there.data(), kBytes);
  backend->receive(back.data(), device.data(), kBytes);
  const auto after = backend->record();
  after->wait();
  EXPECT_EQ(std::memcmp(back.data(), sent.data(), kBytes), 0);
  EXPECT_GT(after->ms_since(*before), 0);
  EXPECT_EQ(backend->traffic(), (Traffic{kBytes, kBytes, 0, 0}));
}

TEST(CudaDevice, RandomTensorsAreTheSameBitsAsOnTheHost) {
  SKIP_WITHOUT_DEVICE();
  const auto backend = make_cuda_backend({});
  for (DType dtype : {DType::f32, DType::bf16}) {
    const RandomTensor tensor{dtype, Shape{1001, 999}, CounterRandom("random", 7), 0.3f, 0.1f};
    const HostTensor expected = make_host_tensor("test", tensor);
    const ResidentTensor made = backend->generate(tensor);
    std::vector<std::byte> found(static_cast<std::size_t>(tensor.bytes()));
    backend->download(found.data(), made.view.data, found.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.view.data, found.size()), 0) << name(dtype);
    EXPECT_EQ(made.owned_bytes, tensor.bytes());
  }
}

TEST(CudaDevice, WhatIsFreedCanBeTakenAgain) {
  SKIP_WITHOUT_DEVICE();
  const auto backend = make_cuda_backend({.memory_limit = std::uint64_t{1} << 30});
  const std::uint64_t before = backend->available_bytes();
  for (int i = 0; i < 3; ++i) {
    const Buffer taken = backend->allocate(before);
    EXPECT_EQ(backend->available_bytes(), 0u);
    expect_error(ErrorCode::out_of_memory, "limit", [&] { backend->allocate(1); });
  }
  EXPECT_EQ(backend->available_bytes(), before);
}

TEST(CudaDevice, AnAllocationThatFailsLeavesTheDeviceUsable) {
  SKIP_WITHOUT_DEVICE();
  const auto backend = make_cuda_backend({});
  expect_error(ErrorCode::out_of_memory, "cuda:0: cannot allocate",
               [&] { backend->allocate(std::size_t{1} << 45); });
  const std::vector<float> sent = some_floats(100);
  const Buffer memory = backend->allocate(400);
  backend->upload(memory.data(), sent.data(), 400);
  std::vector<float> found(100);
  backend->download(found.data(), memory.data(), 400);
  EXPECT_EQ(sent, found);
}

/// The weights fit by the plan's numbers, but the device has less when they are loaded.
TEST(CudaDevice, OutOfMemoryWhileLoadingLeavesTheCpuUsable) {
  SKIP_WITHOUT_DEVICE();
  const Context context = cpu_and_gpu();
  Backend& gpu = context.backend(1);
  const std::vector<TokenId> ids = heldout_ids(20);
  {
    std::vector<Buffer> hog;
    const auto take = [&] {
      for (std::size_t bytes = std::size_t{1} << 40; bytes >= 1 << 20;) {
        try {
          hog.push_back(gpu.allocate(bytes));
        } catch (const Error&) {
          bytes /= 2;
        }
      }
    };
    RunOptions options;
    options.session.place = "cuda";
    bool first = true;
    options.session.watch.progress = [&](std::int64_t, std::int64_t) {
      if (first) take();
      first = false;
    };
    expect_error(ErrorCode::out_of_memory, "cuda:0", [&] { run_tokens(context, ids, options); });
    EXPECT_FALSE(first) << "loading must have begun";
    expect_same(run_tokens(cpu_alone(1), ids, {}), run_tokens(context, ids, {}), "on the CPU afterwards");
  }
  RunOptions again;
  again.session.place = "cuda";
  expect_same(run_tokens(cpu_alone(1), ids, {}), run_tokens(context, ids, again), "on the GPU, with room");
}

TEST(CudaDevice, APlanThatDoesNotFitIsRefusedBeforeAnythingIsLoaded) {
  SKIP_WITHOUT_DEVICE();
  const Context context = cpu_and_gpu(1, std::uint64_t{80} << 20);
  const Traffic before = context.backend(1).traffic();
  RunOptions options;
  options.session.place = "cuda";
  options.session.sequences = 1000;
  options.session.context_tokens = 4096;
  expect_error(ErrorCode::out_of_memory, "cuda:0", [&] { run_tokens(context, heldout_ids(5), options); });
  EXPECT_EQ(context.backend(1).traffic(), before);
}

/// 48 heads of 128 x 128 floats pass 2^31 elements at slot 2731.
TEST(CudaDevice, SlotsBeyondTwoToThe31ElementsWork) {
  SKIP_WITHOUT_DEVICE();
  constexpr std::int64_t kHeads = 48, kDim = 128, kSequences = 2800;
  StateGeometry geometry;
  geometry.layers = {LayerKind::recurrent};
  geometry.recurrent = {kHeads, kDim, kDim, 64, 4};
  const auto gpu = make_cuda_backend({}), cpu = make_cpu_backend({});
  const auto manager = [&](Backend& backend, std::int64_t sequences) {
    return std::make_unique<StateManager>(geometry, std::vector<Backend*>{&backend},
                                          std::vector<LayerCapacity>{{1, 0}},
                                          StateBudget{sequences, 1000, 1});
  };
  const auto far = manager(*gpu, kSequences + 1), near = manager(*cpu, 1);
  SequenceId last{};
  const void* lowest = nullptr;
  for (std::int64_t i = 0; i < kSequences; ++i) {
    last = far->open({Residency::uniform, {0}});
    StateStep step = far->begin(last, 1);  // takes a slot for good
    if (lowest == nullptr) lowest = step.recurrent_in(0, 0).data;
    step.commit();
  }
  last = far->open({Residency::uniform, {0}});

  const auto run = [&](StateManager& state, SequenceId sequence, Backend& backend, std::vector<float>& out) {
    constexpr std::int64_t kKeyHeads = 16;
    std::vector<Buffer> kept;
    const auto tensor = [&](const Shape& shape, std::uint64_t seed) {
      std::vector<float> values = some_floats(static_cast<std::size_t>(shape.elements()) + seed);
      kept.push_back(backend.allocate(static_cast<std::size_t>(shape.elements()) * sizeof(float)));
      backend.upload(kept.back().data(), values.data(), kept.back().bytes());
      return Tensor(kept.back().data(), DType::f32, shape);
    };
    const Tensor q = tensor({1, kKeyHeads, kDim}, 1), k = tensor({1, kKeyHeads, kDim}, 2);
    const Tensor v = tensor({1, kHeads, kDim}, 3), g = tensor({1, kHeads}, 4), beta = tensor({1, kHeads}, 5);
    const Tensor o = tensor({1, kHeads, kDim}, 6);
    for (int token = 0; token < 3; ++token) {
      StateStep step = state.begin(sequence, 1);
      const DeltaSegment segment{{0, 1}, step.recurrent_in(0, 0), step.recurrent_out(0, 0)};
      backend.submit(GdnDelta{q, k, v, g, beta, std::span(&segment, 1), o});
      backend.synchronize();
      if (lowest != nullptr && &backend == gpu.get()) {
        const auto* out_at = static_cast<const float*>(segment.state_out.data);
        EXPECT_GT(out_at - static_cast<const float*>(lowest), std::int64_t{1} << 31) << "not far enough";
      }
      step.commit();
    }
    const LayerView view = state.view(sequence, 0);
    out.resize(kHeads * kDim * kDim);
    backend.download(out.data(), view.piece("recurrent").data, out.size() * sizeof(float));
  };
  std::vector<float> expected, found;
  run(*near, near->open({Residency::uniform, {0}}), *cpu, expected);
  run(*far, last, *gpu, found);
  EXPECT_EQ(std::memcmp(expected.data(), found.data(), found.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace tandem
