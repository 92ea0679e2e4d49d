#pragma once

#include <cstdint>

namespace tandem {

/// How a sequence chooses its next tokens. graph/session/sampler.hpp defines what each field does and which
/// values are allowed; a snapshot carries all of them for whoever continues the sequence.
struct SamplingOptions {
  double temperature = 0;  ///< 0: greedy
  std::int64_t top_k = 0;  ///< 0: no limit
  double top_p = 1;        ///< 1: no limit
  std::uint64_t seed = 0;
  double min_p = 0;                 ///< 0: no limit
  double repeat_penalty = 1;        ///< 1: none
  double presence_penalty = 0;      ///< 0: none
  double frequency_penalty = 0;     ///< 0: none
  std::int64_t repeat_last_n = 64;  ///< tokens that the penalties look back on; 0: none, -1: all

  bool operator==(const SamplingOptions&) const = default;
};

}  // namespace tandem
