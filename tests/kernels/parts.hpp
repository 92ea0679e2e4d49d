#pragma once

#include <vector>

#include "core/backend.hpp"

namespace tandem::test {

/// Rows of a step that an operator has: of its tokens, or of the rows that it picks.
std::int64_t rows_of(const Op& op);

/// Submits an operator as several that together do the same: rows [0, cuts[0]), [cuts[0], cuts[1]), ... up to
/// the last row. A sequence that is cut carries its state from part to part. Returns the variant; throws if
/// the parts had different ones.
std::string_view submit_in_parts(Backend& backend, const Op& op, std::vector<std::int64_t> cuts);

}  // namespace tandem::test
