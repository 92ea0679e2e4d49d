#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "state/snapshot_diff.hpp"

namespace tandem::tools {

/// "'a.tds': 10 tokens, 1 to be fed next, 8 layers, 123456 bytes, all checksums agree", with a line break. An
/// open snapshot has been verified.
std::string verified_line(const Snapshot& snapshot);

/// What `tandem state info` prints.
std::string info_text(const Snapshot& snapshot);
nlohmann::json info_json(const Snapshot& snapshot);

/// What `tandem state diff` prints: only layers and heads that differ.
std::string diff_text(const SnapshotDifference& difference);
nlohmann::json diff_json(const SnapshotDifference& difference);

}  // namespace tandem::tools
