#include "core/threads.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/error.hpp"

namespace tandem {
namespace {

/// How often each of [0, n) was handed out.
std::vector<int> visits(Threads& threads, std::int64_t n, std::int64_t grain) {
  std::vector<std::atomic<int>> counts(static_cast<std::size_t>(n));
  threads.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) counts[static_cast<std::size_t>(i)].fetch_add(1);
  });
  return {counts.begin(), counts.end()};
}

TEST(Threads, CoverARangeExactlyOnce) {
  for (int count : {1, 2, 3, 8}) {
    Threads threads(count);
    EXPECT_EQ(threads.count(), count);
    for (std::int64_t n : {1, 2, 3, 7, 64, 100, 1000, 4097}) {
      for (std::int64_t grain : {1, 2, 3, 10, 64, 1000, 5000}) {
        ASSERT_THAT(visits(threads, n, grain), testing::Each(1))
            << count << " threads, n " << n << ", grain " << grain;
      }
    }
  }
}

TEST(Threads, AnEmptyRangeCallsNothing) {
  for (int count : {1, 4}) {
    Threads threads(count);
    for (std::int64_t n : {0, -1}) {
      threads.parallel_for(n, 1, [](std::int64_t, std::int64_t) { FAIL() << "called for nothing"; });
    }
  }
}

TEST(Threads, SmallWorkStaysInTheCallersThread) {
  Threads threads(4);
  const auto caller = std::this_thread::get_id();
  int calls = 0;
  threads.parallel_for(10, 10, [&](std::int64_t begin, std::int64_t end) {
    ++calls;
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 10);
  });
  EXPECT_EQ(calls, 1);
}

TEST(Threads, OneThreadIsTheCaller) {
  Threads threads(1);
  const auto caller = std::this_thread::get_id();
  threads.parallel_for(1000, 1, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(end - begin, 1000);
  });
}

/// Threads that come to work at once: each range waits until as many as were asked for have come, or gives
/// up.
std::size_t threads_at_once(Threads& threads) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const auto all_came = [&] {
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
    return seen.size() == static_cast<std::size_t>(threads.count());
  };
  threads.parallel_for(64, 1, [&](std::int64_t, std::int64_t) {
    while (!all_came() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  });
  return seen.size();
}

TEST(Threads, AsManyWorkAsWereAskedForWhateverTheProcessors) {
  Threads threads(5);
  EXPECT_EQ(threads_at_once(threads), 5u);
}

TEST(Threads, AnotherObjectWithFewerDoesNotLimitThem) {
  Threads two(2), five(5);
  EXPECT_EQ(threads_at_once(five), 5u);
  EXPECT_EQ(threads_at_once(two), 2u);
}

TEST(Threads, AnExceptionReachesTheCallerAndTheObjectStaysUsable) {
  for (int count : {1, 2, 8}) {
    Threads threads(count);
    for (int repeat = 0; repeat < 20; ++repeat) {
      const auto body = [](std::int64_t begin, std::int64_t end) {
        if (begin <= 70 && 70 < end) throw std::runtime_error("range with 70");
      };
      try {
        threads.parallel_for(100, 1, body);
        FAIL() << "nothing thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "range with 70");
      }
      ASSERT_THAT(visits(threads, 100, 1), testing::Each(1));
    }
  }
}

TEST(Threads, AnErrorKeepsItsCode) {
  Threads threads(3);
  try {
    threads.parallel_for(50, 1, [](std::int64_t, std::int64_t) { fail(ErrorCode::corrupt, "block {}", 7); });
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_STREQ(error.what(), "block 7");
  }
}

TEST(Threads, ZeroMeansTheMachines) {
  Threads threads(0);
  EXPECT_GE(threads.count(), 1);
  EXPECT_THAT(visits(threads, 100, 1), testing::Each(1));
}

TEST(Threads, OtherCountsAreRefused) {
  for (int count : {-1, -100, 4097, 1 << 30}) {
    try {
      Threads threads(count);
      FAIL() << count << " threads were made";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), testing::HasSubstr("threads: expected 0 (all processors) to 4096, got " +
                                                   std::to_string(count)));
    }
  }
}

TEST(Threads, SeveralObjectsWorkSideBySide) {
  Threads two(2), five(5);
  EXPECT_THAT(visits(two, 500, 1), testing::Each(1));
  EXPECT_THAT(visits(five, 500, 1), testing::Each(1));
  std::thread other([&] { EXPECT_THAT(visits(two, 5000, 1), testing::Each(1)); });
  EXPECT_THAT(visits(five, 5000, 1), testing::Each(1));
  other.join();
}

}  // namespace
}  // namespace tandem
