#pragma once

#include <cstdint>

namespace tandem {

/// A token's number: its row in the embedding. Never negative in a vocabulary.
using TokenId = std::int32_t;

}  // namespace tandem
