#include "tests/kernels/values.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/numerics.hpp"

namespace tandem::test {
namespace {

float with_exponent(Dice& dice, std::int64_t low, std::int64_t high) {
  const auto exponent = static_cast<std::uint32_t>(dice.between(low + 127, high + 127));
  const auto sign_and_mantissa = static_cast<std::uint32_t>(dice.bits()) & 0x807fffffu;
  return num::float_of(sign_and_mantissa | (exponent << 23));
}

float with_sign(Dice& dice, float x) { return dice.one_in(2) ? -x : x; }

}  // namespace

float draw(Values kind, Dice& dice) {
  const auto ordinary = [&dice] { return static_cast<float>(dice.normal()); };
  switch (kind) {
    case Values::ordinary:
      return ordinary();
    case Values::heavy_tailed: {
      const double u = dice.normal();
      return static_cast<float>(u * u * u * u * u);
    }
    case Values::wide:
      return with_exponent(dice, -40, 40);
    case Values::any_finite:
      return with_exponent(dice, -127, 127);
    case Values::subnormal:
      return with_exponent(dice, -127, -127);
    case Values::underflowing:
      return with_exponent(dice, -80, -60);
    case Values::zeros:
      return dice.one_in(4) ? ordinary() : with_sign(dice, 0.0f);
    case Values::infinities:
      return dice.one_in(16) ? with_sign(dice, std::numeric_limits<float>::infinity()) : ordinary();
    case Values::nans:
      return dice.one_in(16) ? std::numeric_limits<float>::quiet_NaN() : ordinary();
  }
  return 0.0f;
}

f16 draw_f16(Values kind, Dice& dice) {
  constexpr std::uint16_t kSignAndFraction = 0x83ff;
  switch (kind) {
    case Values::wide:
    case Values::any_finite: {
      const auto exponent = static_cast<std::uint16_t>(dice.between(0, 30) << 10);
      return {static_cast<std::uint16_t>((dice.bits() & kSignAndFraction) | exponent)};
    }
    case Values::subnormal:
    case Values::underflowing:
      return {static_cast<std::uint16_t>(dice.bits() & kSignAndFraction)};
    default:
      return num::round_to_f16(draw(kind, dice));
  }
}

std::vector<std::byte> poison(std::size_t bytes) {
  std::vector<std::byte> filled(bytes);
  if (bytes == 0) return filled;
  // Every copy doubles what is filled: element by element a sanitizer would look at each.
  std::memcpy(filled.data(), &kPoisonHalf, std::min(bytes, sizeof kPoisonHalf));
  for (std::size_t done = sizeof kPoisonHalf; done < bytes; done *= 2) {
    std::memcpy(filled.data() + done, filled.data(), std::min(done, bytes - done));
  }
  return filled;
}

}  // namespace tandem::test
