#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "core/numerics.hpp"

namespace tandem {

/// The functions of core/numerics.hpp that kernels call.
enum class Function : std::uint8_t { exp, sigmoid, silu, softplus, inverse_sqrt, widen_f16, round_to_f16 };
inline constexpr std::array kFunctions{Function::exp,         Function::sigmoid,      Function::silu,
                                       Function::softplus,    Function::inverse_sqrt, Function::widen_f16,
                                       Function::round_to_f16};

/// binary16 by the hardware's own instruction, as kernels read the scales of 4-bit weights.
TANDEM_FN float widen_as_kernels_do(f16 x) {
#if defined(__CUDA_ARCH__)
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
#else
  return num::widen(x);
#endif
}

/// The function itself, on whichever side this is compiled for.
TANDEM_FN float apply(Function function, float x) {
  switch (function) {
    case Function::exp:
      return num::exp(x);
    case Function::sigmoid:
      return num::sigmoid(x);
    case Function::silu:
      return num::silu(x);
    case Function::softplus:
      return num::softplus(x);
    case Function::inverse_sqrt:
      return num::inverse_sqrt(x);
    case Function::widen_f16:  // of the lower half of the bits: all patterns come, many times
      return widen_as_kernels_do(f16{static_cast<std::uint16_t>(num::bits_of(x))});
    case Function::round_to_f16:
      return num::widen(num::round_to_f16(x));
  }
  return 0.0f;
}

/// Why there is no GPU to run on; empty when there is one.
std::string no_device_reason();

/// out[i] = the bits of function(the float whose bits are first + i), computed on the GPU. Returns what
/// went wrong, or nothing: device code is kept free of fmt, which nvcc's front end cannot compile, and so of
/// core/error.hpp.
std::string run_on_device(Function function, std::uint32_t first, std::span<std::uint32_t> out);

}  // namespace tandem
