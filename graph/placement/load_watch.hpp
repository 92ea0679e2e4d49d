#pragma once

#include <cstdint>
#include <functional>

namespace tandem {

/// Whoever waits while weights are loaded. Both may be left out.
struct LoadWatch {
  std::function<void(std::int64_t done, std::int64_t total)> progress;  ///< bytes, after each weight
  std::function<bool()> interrupted;  ///< looked at before each weight; true ends in Error(interrupted)
};

}  // namespace tandem
