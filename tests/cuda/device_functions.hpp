#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "core/numerics.hpp"

namespace tandem {

/// The functions of core/numerics.hpp that kernels call.
enum class Function : std::uint8_t { exp, sigmoid, silu, softplus, inverse_sqrt };
inline constexpr std::array kFunctions{Function::exp, Function::sigmoid, Function::silu, Function::softplus,
                                       Function::inverse_sqrt};

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
