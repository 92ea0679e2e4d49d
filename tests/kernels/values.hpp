#pragma once

#include <cstddef>
#include <vector>

#include "core/dtype.hpp"
#include "tests/kernels/dice.hpp"

namespace tandem::test {

/// What the elements of an operand are like. Each kind reaches a place where a kernel that reassociates,
/// flushes, contracts or takes a short cut gives other bits than the definition.
enum class Values {
  ordinary,      ///< about normal
  heavy_tailed,  ///< as activations are: most small, a few large
  wide,          ///< exponents from -40 to 40
  any_finite,    ///< every finite bit pattern
  subnormal,     ///< nothing else
  underflowing,  ///< products of two are subnormal or zero
  zeros,         ///< of both signs, a few ordinary ones among them
  infinities,    ///< of both signs, among ordinary ones
  nans,          ///< among ordinary ones
};
inline constexpr int kValueKinds = 9;

/// One element.
float draw(Values kind, Dice& dice);

/// The same for the scale of a q4 block: wide and any_finite are every finite bit pattern of binary16.
f16 draw_f16(Values kind, Dice& dice);

/// NaN as f32 and, in both halves, as bf16; an index that no table has as i32. Guard zones, gaps between rows
/// and elements that were not written yet hold it: reading one shows in a result, and so does not writing
/// one.
inline constexpr std::uint16_t kPoisonHalf = 0x7fd5;
inline constexpr std::uint32_t kPoison = 0x7fd57fd5;

/// So many bytes of it, an even number.
std::vector<std::byte> poison(std::size_t bytes);

}  // namespace tandem::test
