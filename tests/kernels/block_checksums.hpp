#pragma once

#include "core/backend.hpp"

namespace tandem::test {

/// Expects a backend's checksums of ranges of all kinds of lengths in its memory to be those of the
/// definition, together, alone, of none, and in the order of its work.
void expect_block_checksums(Backend& backend);

}  // namespace tandem::test
