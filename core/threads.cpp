#include "core/threads.hpp"

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/float_environment.hpp"

namespace tandem {
namespace {

constexpr int kMaxThreads = 4096;

}  // namespace

struct Threads::Arena {
  // The arena alone would be capped by the number of processors: asking for more threads than that must
  // really start them. oneTBB takes the smallest limit of all live objects, so all ask for the same one and
  // the arena counts.
  tbb::global_control limit;
  tbb::task_arena arena;

  explicit Arena(int count)
      : limit(tbb::global_control::max_allowed_parallelism, kMaxThreads), arena(count) {}
};

namespace {

/// oneTBB starts its threads when there is work, and ends the process when the system refuses one. So all of
/// them are started once, together, where a refusal can be told.
void require_threads(int count) {
  std::vector<std::thread> threads;
  std::promise<void> done;
  const std::shared_future<void> end = done.get_future().share();
  int refused = 0;
  try {
    threads.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) threads.emplace_back([end] { end.wait(); });
  } catch (const std::system_error& error) {
    refused = error.code().value();
  }
  const std::size_t started = threads.size();
  done.set_value();
  for (std::thread& thread : threads) thread.join();
  if (refused == 0) return;
  fail(ErrorCode::out_of_memory,
       "the system starts {} of {} threads ({}): use fewer with --threads, or raise "
       "the limit of processes (ulimit -u)",
       started, count, std::generic_category().message(refused));
}

int resolve(int count) {
  if (count < 0 || count > kMaxThreads) {
    fail(ErrorCode::invalid_argument, "threads: expected 0 (all processors) to {}, got {}", kMaxThreads,
         count);
  }
  return count > 0 ? count : tbb::info::default_concurrency();
}

}  // namespace

Threads::Threads(int count) : count_(resolve(count)) {
  if (count_ > 1) require_threads(count_ - 1);
  if (count_ > 1) arena_ = std::make_unique<Arena>(count_);
}

Threads::~Threads() = default;

void Threads::run(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
  using Range = tbb::blocked_range<std::int64_t>;
  const Range range(0, n, static_cast<std::size_t>(grain < 1 ? 1 : grain));
  arena_->arena.execute([&] {
    tbb::parallel_for(range, [&](const Range& part) {
      const FloatEnvironment environment;
      body(part.begin(), part.end());
    });
  });
}

}  // namespace tandem
