#pragma once

#include <memory>

#include "graph/model.hpp"

namespace tandem {

inline constexpr int kMixedLayers = 48;

/// A model of kMixedLayers narrow layers of random weights whose groups have all gears, beside each other in
/// one layer too. Its vocabulary is that of the shipped model. Made once.
std::shared_ptr<const Model> mixed_gears_model();

}  // namespace tandem
