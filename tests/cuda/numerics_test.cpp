
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <vector>

#include "core/threads.hpp"
#include "tests/cuda/device_functions.hpp"

/// The functions of kernels give the same bits on the GPU and on the CPU, for every float.
namespace tandem {
namespace {

bool same(float host, std::uint32_t device) {
  if (std::isnan(host)) return std::isnan(num::float_of(device));
  return num::bits_of(host) == device;
}

class DeviceNumerics : public testing::TestWithParam<Function> {};

TEST_P(DeviceNumerics, EqualsTheHostForEveryFloat) {
  if (const std::string reason = no_device_reason(); !reason.empty()) GTEST_SKIP() << reason;
  constexpr std::uint64_t kAll = std::uint64_t{1} << 32, kBatch = std::uint64_t{1} << 26;
  Threads threads(0);
  std::vector<std::uint32_t> device(kBatch);
  std::atomic<std::int64_t> different{0};
  std::atomic<std::uint32_t> example{0};
  for (std::uint64_t first = 0; first < kAll; first += kBatch) {
    ASSERT_EQ(run_on_device(GetParam(), static_cast<std::uint32_t>(first), device), "");
    threads.parallel_for(kBatch, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto bits = static_cast<std::uint32_t>(first + static_cast<std::uint64_t>(i));
        if (same(apply(GetParam(), num::float_of(bits)), device[static_cast<std::size_t>(i)])) continue;
        ++different;
        example = bits;
      }
    });
  }
  EXPECT_EQ(different, 0) << "for example at bits " << std::hex << example;
}

constexpr std::array kNames{"exp",          "sigmoid",   "silu",        "softplus",
                            "inverse_sqrt", "widen_f16", "round_to_f16"};

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceNumerics, testing::ValuesIn(kFunctions),
                         [](const auto& info) { return kNames[static_cast<std::size_t>(info.param)]; });

}  // namespace
}  // namespace tandem
