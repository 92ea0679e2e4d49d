#pragma once

#include <cstdint>

namespace tandem {

/// The version of the definitions that decide bits: operators, tables, conversions, draws, scores and the
/// cutting of text into tokens. It is raised with every change of one of them, and never otherwise. State
/// that was computed with one version is not continued with another: snapshots carry the number, the
/// fingerprint of a model contains it, and ledgers and JSON show it.
///
///     1   as first built: the host's libm for rotary tables, A_log of GGUF files, draws and scores; the
///         caller's floating-point environment; Unicode tables of the machine's libraries
///     2   own functions in double for rotary tables, A_log, draws and scores; the floating-point environment
///         is set at every entry; own Unicode tables
inline constexpr std::int32_t kArithmeticVersion = 2;

}  // namespace tandem
