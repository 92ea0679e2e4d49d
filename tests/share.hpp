#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace tandem::test {

/// Tests take one in so many of their random cases, tokens and values of a sweep: TANDEM_TEST_SHARE, or 1.
/// Where a sanitizer makes all of them slow, tools/test sets it: a fault of memory or a race needs fewer than
/// a wrong bit, for which the build without sanitizers takes them all.
inline int one_in() {
  const char* text = std::getenv("TANDEM_TEST_SHARE");
  return text == nullptr ? 1 : std::max(std::atoi(text), 1);
}

/// How many of `count` to take: a multiple of `kinds`, and not none.
template <class T>
T share_of(T count, T kinds = 1) {
  const T few = std::max(count / static_cast<T>(one_in()), T{1});
  return (few + kinds - 1) / kinds * kinds;
}

/// Whether to take the case of this index, of those that a loop goes through: the first, and one in one_in().
inline bool taken(std::size_t index) { return index % static_cast<std::size_t>(one_in()) == 0; }

}  // namespace tandem::test
