#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

/// Rotary angles: cos and sin of position * theta^(-2i / (2 * pairs)), [positions, pairs], computed in
/// double.
struct RopeTable {
  std::vector<double> cos;
  std::vector<double> sin;
};

RopeTable make_rope_table(std::int64_t positions, std::int64_t pairs, double theta);

}  // namespace tandem
