#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

/// Cosine and sine of the angles position * theta^(-i / pairs), each [positions, pairs].
template <class Real>
struct RopeTable {
  std::vector<Real> cos;
  std::vector<Real> sin;
};

/// Real is float or double. Every float is the nearest one to the true value, so the table is defined by
/// theta alone, not by a way to compute it. Measured: all values are known to 2^-80 (2^-87 where compared
/// with libquadmath); of the 587,200,320 values for theta 1e4, 5e5, 1e6, 1e7 and 11947, for 32, 64 and 128
/// pairs and 262,144 positions, none lies nearer than 2^-54.4 to the middle between two floats. The doubles
/// are nearly correctly rounded: half a unit in the last place, and 2^-80.
///
/// REQUIRES: theta > 1 and finite, positions <= 2^30.
template <class Real>
RopeTable<Real> make_rope_table(std::int64_t positions, std::int64_t pairs, double theta);

}  // namespace tandem
