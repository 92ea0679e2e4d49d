#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tandem {

/// A fixed number of threads (oneTBB). Work is cut into ranges; since every output element is computed whole
/// by one thread, in its own fixed order, neither the number of threads nor the cut can be seen in a result.
/// Thread-safety: parallel_for may be called from one thread at a time per object.
class Threads {
 public:
  /// count >= 1; 0 means one for each processor this process may run on. Throws Error(invalid_argument) for
  /// other counts and Error(out_of_memory) when the system does not start as many.
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const { return count_; }

  /// Calls body(begin, end) for disjoint ranges that cover [0, n), none smaller than `grain` but the last.
  /// With one thread, or n <= grain, there is one call in the caller's own thread: small work pays nothing
  /// for being parallel.
  template <class Body>
  void parallel_for(std::int64_t n, std::int64_t grain, const Body& body) {
    if (n <= 0) return;
    if (count_ == 1 || n <= grain) return body(std::int64_t{0}, n);
    run(n, grain, std::cref(body));
  }

 private:
  struct Arena;
  void run(std::int64_t n, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body);

  int count_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace tandem
