#include "state/block_transfer.hpp"

#include <cstring>
#include <deque>
#include <functional>

#include "core/random.hpp"
#include "tests/state/state_fixture.hpp"

namespace tandem::testing {
namespace {

/// Sends and receives at the last moment that it may: when an event is waited for. Whoever touches staging
/// memory before that gets other bytes than meant.
class LazyBackend final : public FakeBackend {
 public:
  using FakeBackend::FakeBackend;

  void send(void* to, const void* from_staging, std::size_t bytes) override {
    queue_.push_back([=, this] { FakeBackend::send(to, from_staging, bytes); });
  }
  void receive(void* to_staging, const void* from, std::size_t bytes) override {
    queue_.push_back([=, this] { FakeBackend::receive(to_staging, from, bytes); });
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
  void add(Backend& from, Backend& to, std::size_t bytes) {
    Buffer& source = memory_.emplace_back(from.allocate(bytes));
    Buffer& target = memory_.emplace_back(to.allocate(bytes));
    for (std::size_t i = 0; i < bytes; ++i)
      static_cast<unsigned char*>(source.data())[i] = static_cast<unsigned char>(random_.bits(drawn_++));
    copies_.push_back({&from, &to, source.data(), target.data(), bytes});
  }

  void expect_arrived() const {
    for (const BlockCopy& copy : copies_)
      EXPECT_EQ(std::memcmp(copy.source, copy.target, copy.bytes), 0) << copy.bytes << " bytes";
  }

  LazyBackend a_{"a"};
  LazyBackend b_{"b"};
  std::deque<Buffer> memory_;
  std::vector<BlockCopy> copies_;
  CounterRandom random_{"blocks", 7};
  std::uint64_t drawn_ = 0;
};

TEST_F(BlockTransferTest, StagingIsNotUsedAgainTooEarly) {
  for (int i = 0; i < 12; ++i)
    add(a_, b_, (std::size_t{1} << 20) + 100'000 * static_cast<std::size_t>(i) + 4);
  BlockTransfer().run(copies_);
  expect_arrived();
  EXPECT_EQ(a_.waiting() + b_.waiting(), 0u);
}

TEST_F(BlockTransferTest, LargeSmallAndBothWays) {
  add(a_, b_, std::size_t{6} << 20);
  for (int i = 0; i < 40; ++i)
    add(i % 7 < 4 ? a_ : b_, i % 7 < 4 ? b_ : a_, 1 + 1000 * static_cast<std::size_t>(i));
  add(b_, a_, std::size_t{5} << 20);
  BlockTransfer().run(copies_);
  expect_arrived();
}

TEST_F(BlockTransferTest, NothingToCarryIsNothing) { EXPECT_NO_THROW(BlockTransfer().run({})); }

}  // namespace
}  // namespace tandem::testing
