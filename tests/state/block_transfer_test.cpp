#include "state/block_transfer.hpp"

#include <cstring>
#include <deque>
#include <functional>

#include "core/random.hpp"
#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

/// A device that sends and receives at the last moment that it may: when an event is waited for, or something
/// needs its order. Whoever touches the host's side before that gets other bytes than meant.
class LazyBackend final : public FakeBackend {
 public:
  explicit LazyBackend(std::string name) : FakeBackend(std::move(name)) { become_device(); }

  void send(void* to, const void* from_staging, std::size_t bytes) override {
    queue_.push_back([=, this] { FakeBackend::upload(to, from_staging, bytes); });
  }
  void receive(void* to_staging, const void* from, std::size_t bytes) override {
    queue_.push_back([=, this] { FakeBackend::download(to_staging, from, bytes); });
  }
  void download(void* to_host, const void* from, std::size_t bytes) override {
    synchronize();
    FakeBackend::download(to_host, from, bytes);
  }
  std::unique_ptr<PendingChecksums> checksums(std::span<const ByteRange> ranges) override {
    const auto pending = std::make_shared<std::vector<Checksum>>();
    queue_.push_back([=, this, list = std::vector<ByteRange>(ranges.begin(), ranges.end())] {
      for (const ByteRange& range : list) {
        std::vector<std::byte> bytes(range.bytes);
        FakeBackend::download(bytes.data(), range.data, range.bytes);
        pending->push_back(block_checksum(bytes));
      }
    });
    return std::make_unique<Pending>(record(), pending);
  }
  std::unique_ptr<Event> record() override { return std::make_unique<Mark>(*this, done_ + queue_.size()); }
  void synchronize() override { finish(done_ + queue_.size()); }

  std::size_t waiting() const { return queue_.size(); }

 private:
  class Mark final : public Event {
   public:
    Mark(LazyBackend& backend, std::size_t until) : backend_(backend), until_(until) {}
    void wait() override { backend_.finish(until_); }
    double ms_since(const Event&) override { return 0; }

   private:
    LazyBackend& backend_;
    std::size_t until_;
  };

  class Pending final : public PendingChecksums {
   public:
    Pending(std::unique_ptr<Event> done, std::shared_ptr<std::vector<Checksum>> checksums)
        : done_(std::move(done)), checksums_(std::move(checksums)) {}
    std::vector<Checksum> wait() override {
      done_->wait();
      return *checksums_;
    }

   private:
    std::unique_ptr<Event> done_;
    std::shared_ptr<std::vector<Checksum>> checksums_;
  };

  void finish(std::size_t until) {
    for (; done_ < until; ++done_) {
      queue_.front()();
      queue_.pop_front();
    }
  }

  std::deque<std::function<void()>> queue_;
  std::size_t done_ = 0;
};

class BlockTransferTest : public ::testing::Test {
 protected:
  /// A block of random bytes on one backend, which is to go to another.
  BlockCopy& add(Backend& from, Backend& to, std::size_t bytes, Path path) {
    Buffer& source = memory_.emplace_back(from.allocate(bytes));
    Buffer& target = memory_.emplace_back(to.allocate(bytes));
    for (std::size_t i = 0; i < bytes; ++i)
      static_cast<unsigned char*>(source.data())[i] = static_cast<unsigned char>(random_.bits(drawn_++));
    return copies_.emplace_back(BlockCopy{&from, &to, source.data(), target.data(), bytes, path});
  }

  static Checksum checksum_at(const void* data, std::size_t bytes) {
    return block_checksum({static_cast<const std::byte*>(data), bytes});
  }

  /// Runs, and expects every block to have arrived, and the checksums of both sides.
  void expect_arrives() {
    const std::vector<BlockChecksums> checksums = BlockTransfer().run(copies_);
    ASSERT_EQ(checksums.size(), copies_.size());
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const BlockCopy& copy = copies_[i];
      EXPECT_EQ(std::memcmp(copy.source, copy.target, copy.bytes), 0) << copy.bytes << " bytes";
      EXPECT_EQ(checksums[i].source, checksum_at(copy.source, copy.bytes));
      EXPECT_EQ(checksums[i].target, checksum_at(copy.target, copy.bytes));
    }
    EXPECT_EQ(a_.waiting() + b_.waiting(), 0u);
  }

  LazyBackend a_{"a"};
  LazyBackend b_{"b"};
  FakeBackend host_{"host"};
  FakeBackend other_{"other"};
  std::deque<Buffer> memory_;
  std::vector<BlockCopy> copies_;
  CounterRandom random_{"blocks", 7};
  std::uint64_t drawn_ = 0;
};

TEST_F(BlockTransferTest, StagingIsNotUsedAgainTooEarly) {
  for (int i = 0; i < 12; ++i)
    add(a_, b_, (std::size_t{1} << 20) + 100'000 * static_cast<std::size_t>(i) + 4, Path::staged);
  expect_arrives();
}

TEST_F(BlockTransferTest, LargeSmallAndBothWays) {
  add(a_, b_, std::size_t{6} << 20, Path::staged);
  for (int i = 0; i < 40; ++i)
    add(i % 7 < 4 ? a_ : b_, i % 7 < 4 ? b_ : a_, 1 + 1000 * static_cast<std::size_t>(i), Path::staged);
  add(b_, a_, std::size_t{5} << 20, Path::staged);
  expect_arrives();
}

TEST_F(BlockTransferTest, DirectCopiesAreCheckedWhenTheyHaveArrived) {
  for (Backend* device : {static_cast<Backend*>(&a_), static_cast<Backend*>(&b_)}) {
    for (int i = 0; i < 9; ++i) {
      const std::size_t bytes = (std::size_t{1} << 20) + 100'000 * static_cast<std::size_t>(i) + 4;
      add(*device, host_, bytes, Path::direct);
    }
    for (int i = 0; i < 9; ++i) add(host_, *device, 1 + 300'000 * static_cast<std::size_t>(i), Path::direct);
  }
  add(host_, other_, 70'001, Path::direct);
  expect_arrives();
}

TEST_F(BlockTransferTest, AllWaysInOneCall) {
  for (int i = 0; i < 8; ++i) {
    const std::size_t bytes = 1 + 40'000 * static_cast<std::size_t>(i);
    add(a_, b_, bytes, Path::staged);
    add(host_, a_, bytes, Path::direct);
    add(host_, b_, bytes, Path::staged);
    add(b_, host_, bytes, Path::direct);
    add(b_, host_, bytes, Path::staged);
    BlockCopy& there = add(host_, b_, bytes, Path::there);
    std::memcpy(there.target, there.source, bytes);
  }
  expect_arrives();
}

TEST_F(BlockTransferTest, WhatIsThereIsComparedAndNotWritten) {
  const BlockCopy& there = add(host_, a_, 1000, Path::there);
  const Checksum before = checksum_at(there.target, there.bytes);
  const std::vector<BlockChecksums> checksums = BlockTransfer().run(copies_);
  EXPECT_EQ(checksums[0].target, before);
  EXPECT_NE(checksums[0].source, before);
}

TEST_F(BlockTransferTest, NothingToCarryIsNothing) { EXPECT_TRUE(BlockTransfer().run({}).empty()); }

}  // namespace
}  // namespace tandem::testing
