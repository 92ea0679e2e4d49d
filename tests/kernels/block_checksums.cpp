#include "tests/kernels/block_checksums.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"

namespace tandem::test {
namespace {

/// Every kind of input that XXH3 tells apart, ends of stripes, blocks and pieces, pages and a slot of 27B,
/// and more ranges than a kernel could get as parameters.
std::vector<std::size_t> lengths() {
  std::vector<std::size_t> lengths;
  for (std::size_t length = 0; length <= 1100; ++length) lengths.push_back(length);
  for (std::size_t length = 2040; length <= 2060; ++length) lengths.push_back(length);
  for (std::size_t around : {4096u, 5120u, 16'384u, 32'768u, 131'072u, 245'760u, 262'144u})
    lengths.insert(lengths.end(), {around - 64, around - 1, around, around + 1, around + 64});
  lengths.insert(lengths.end(), {3'268'608u, 0u});
  return lengths;
}

/// Ranges that begin anywhere in a piece of memory; some overlap.
struct Ranges {
  std::vector<std::byte> host;
  Buffer memory;
  std::vector<ByteRange> ranges;
  std::vector<Checksum> expected;

  explicit Ranges(Backend& backend) : host(std::size_t{4} << 20), memory(backend.allocate(host.size())) {
    const CounterRandom random("ranges", 11);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<std::byte>(random.bits(i));
    backend.upload(memory.data(), host.data(), host.size());
    std::uint64_t drawn = 0;
    for (std::size_t length : lengths())
      add(random.bits(drawn++) % ((host.size() - length) / 16) * 16, length);
  }

  void add(std::size_t offset, std::size_t length) {
    ranges.push_back({static_cast<std::byte*>(memory.data()) + offset, length});
    expected.push_back(block_checksum(std::span(host).subspan(offset, length)));
  }
};

}  // namespace

void expect_block_checksums(Backend& backend) {
  const Ranges all(backend);
  const std::vector<Checksum> found = backend.checksums(all.ranges)->wait();
  ASSERT_EQ(found.size(), all.ranges.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_EQ(found[i], all.expected[i]) << all.ranges[i].bytes << " bytes on " << backend.info().name;
  for (std::size_t i = 0; i < found.size(); i += 101) {
    const std::vector<Checksum> alone = backend.checksums(std::span(all.ranges).subspan(i, 1))->wait();
    ASSERT_EQ(alone, std::vector{all.expected[i]}) << all.ranges[i].bytes << " bytes alone";
  }
  EXPECT_TRUE(backend.checksums({})->wait().empty());
  backend.checksums(all.ranges);  // and nobody waits

  // In order: between an upload and the next one.
  const std::size_t bytes = 1 << 20;
  const ByteRange range{all.memory.data(), bytes};
  const std::vector<std::byte> other(bytes, std::byte{7});
  backend.upload(all.memory.data(), other.data(), bytes);
  const auto pending = backend.checksums({&range, 1});
  backend.upload(all.memory.data(), all.host.data(), bytes);
  EXPECT_EQ(pending->wait(), std::vector{block_checksum(other)});
  EXPECT_EQ(backend.checksums({&range, 1})->wait(),
            std::vector{block_checksum(std::span(all.host).first(bytes))});

  const ByteRange crooked{static_cast<std::byte*>(all.memory.data()) + 8, 64};
  EXPECT_THROW(backend.checksums({&crooked, 1}), Error);
}

}  // namespace tandem::test
