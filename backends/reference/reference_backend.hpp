#pragma once

#include <memory>

#include "core/backend.hpp"

namespace tandem {

/// The judge of accuracy: every operator of core/ops.hpp in float64, as its formula reads, on one thread.
///
/// Activations and states are f64, so that a model run here says how far the float32 backends are from the
/// formulas themselves. Weights are used in place, in the type of their file. Each operator has one variant,
/// "float64", which computes every token by itself: batching and splitting a prompt do not change its values.
///
/// The backend keeps no state of its own between calls. Memory is the host's; submit(), upload() and copy()
/// return when the work is done. Thread-safety: as Backend; different instances share nothing.
std::unique_ptr<Backend> make_reference_backend();

}  // namespace tandem
