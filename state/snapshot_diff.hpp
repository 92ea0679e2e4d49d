#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "state/snapshot.hpp"

namespace tandem {

/// Elements that two states have in the same place.
struct ElementDifference {
  std::int64_t elements = 0;
  std::int64_t different = 0;  ///< not the same bits
  double largest = 0;          ///< absolute difference; infinity where one of two different elements is a NaN

  void add(const ElementDifference& other);
};

/// One of a layer's tensors, by head: value heads of "recurrent", kv heads of "keys" and "values", and the
/// one piece of "conv".
struct PartDifference {
  std::string_view part;
  std::vector<ElementDifference> heads;

  ElementDifference total() const;
};

struct LayerDifference {
  LayerKind kind = LayerKind::recurrent;
  std::vector<PartDifference> parts;

  bool any() const;
};

struct SnapshotDifference {
  std::string contract;  ///< the first field that differs, checksums aside; empty if none does
  std::optional<std::int64_t> first_id;  ///< index of the first id that differs or that one of them lacks
  bool sampling = false;                 ///< whether the samplings differ
  bool unsafe = false;                   ///< whether one carries the mark of unsafe_restart, and one does not
  std::vector<LayerDifference> layers;   ///< all of them

  bool any() const;
};

/// Compares two snapshots element by element. Keys and values are compared at the positions that both have.
/// Throws Error(mismatch) naming the field when element type, geometry, layouts or head order differ: then no
/// element of one is in the place of one of the other. Thread-safe.
SnapshotDifference compare(const Snapshot& a, const Snapshot& b);

}  // namespace tandem
