#pragma once

#include <cstdint>
#include <span>

namespace tandem::tools {

/// How the logits after one token differ from those of the undisturbed run.
struct LogitDifference {
  std::int64_t elements = 0;
  std::int64_t different = 0;  ///< not the same bits
  double max_rel = 0;          ///< max |difference| over max |undisturbed|; infinite where one is no number
  double kl = 0;               ///< KL(undisturbed || found) of the next token's distribution, in nats
};

/// REQUIRES: as many of both.
LogitDifference difference_of(std::span<const float> undisturbed, std::span<const float> found);

}  // namespace tandem::tools
