#include <gtest/gtest.h>

#include <vector>

#include "core/random.hpp"
#include "tests/cuda/device.hpp"
#include "tests/kernels/block_checksums.hpp"

/// Checksums that the device computes of its own memory are those of libxxhash.
namespace tandem {
namespace {

TEST(CudaChecksums, AreTheDefinitions) {
  SKIP_WITHOUT_DEVICE();
  const auto backend = make_cuda_backend({});
  test::expect_block_checksums(*backend);
}

TEST(CudaChecksums, MoreThanTheReservedMemoryHolds) {
  SKIP_WITHOUT_DEVICE();
  constexpr std::size_t kRanges = 200'000, kBytes = 320;  // 4.8 MB of list, 3.2 MB of results
  const auto backend = make_cuda_backend({});
  std::vector<std::byte> host(kRanges * kBytes);
  const CounterRandom random("many", 1);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<std::byte>(random.bits(i));
  const Buffer memory = backend->allocate(host.size());
  backend->upload(memory.data(), host.data(), host.size());
  std::vector<ByteRange> ranges;
  for (std::size_t i = 0; i < kRanges; ++i)
    ranges.push_back({static_cast<std::byte*>(memory.data()) + i * kBytes, kBytes});
  const std::vector<Checksum> found = backend->checksums(ranges)->wait();
  ASSERT_EQ(found.size(), kRanges);
  for (std::size_t i = 0; i < kRanges; ++i)
    ASSERT_EQ(found[i], block_checksum(std::span(host).subspan(i * kBytes, kBytes))) << i;
}

TEST(CudaChecksums, OnlyTheResultsCross) {
  SKIP_WITHOUT_DEVICE();
  const auto backend = make_cuda_backend({});
  const Buffer memory = backend->allocate(std::size_t{8} << 20);
  const std::vector<std::byte> zeros(memory.bytes());
  backend->upload(memory.data(), zeros.data(), zeros.size());
  const ByteRange ranges[] = {
      {memory.data(), std::size_t{5} << 20}, {memory.data(), 100}, {memory.data(), 0}};
  const Traffic before = backend->traffic();
  backend->checksums(ranges)->wait();
  const Traffic after = backend->traffic();
  EXPECT_EQ(after.uploaded, before.uploaded);
  EXPECT_EQ(after.downloaded, before.downloaded);
  EXPECT_EQ(after.checksums - before.checksums, 3 * sizeof(Checksum));
  EXPECT_EQ(after.arguments - before.arguments, 3u * 24);
}

}  // namespace
}  // namespace tandem
