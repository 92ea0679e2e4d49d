#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "core/random.hpp"

namespace tandem::test {

/// Random choices in a row; the whole row follows from a name and a seed.
class Dice {
 public:
  Dice(std::string_view stream, std::uint64_t seed) : random_(stream, seed) {}

  std::uint64_t bits() { return random_.bits(next_++); }
  double normal() { return random_.normal(next_++); }

  /// Both ends included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::int64_t n) { return between(1, n) == 1; }

  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[between(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }

 private:
  CounterRandom random_;
  std::uint64_t next_ = 0;
};

}  // namespace tandem::test
