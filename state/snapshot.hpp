#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/io/mapped_file.hpp"
#include "state/snapshot_format.hpp"
#include "state/state_import.hpp"

namespace tandem {

/// Writes the newest version of a sequence to a file, which appears whole or not at all. An open step is not
/// seen, and nothing changes. A mark of unsafe_restart goes into the file. Each layer is downloaded twice,
/// for its checksum and for the file, so that one layer is in host memory at a time.
///
/// `model` is the fingerprint of the model. `ids` are the tokens that the state has seen, from the first,
/// and after them any that are to be fed next (the last chosen one, usually: it was not fed back yet). Who
/// calls answers for them: a state cannot tell which tokens made it.
///
/// Throws Error(invalid_argument) for fewer ids than the sequence has tokens and for negative ones,
/// Error(io), and as export_layer. `before_rename` as in NewFile::publish.
void save_snapshot(const std::filesystem::path& path, const StateManager& manager, SequenceId id,
                   std::string_view model, std::span<const TokenId> ids,
                   const std::optional<SamplingOptions>& sampling = {},
                   const std::function<void()>& before_rename = {});

/// The same, of a state that somebody else hands out: all layers of `description`, each once for its checksum
/// before and once for the file. `layer` may wait and throw; Error(mismatch) when it gives another state than
/// the one described.
void save_snapshot(const std::filesystem::path& path, const SnapshotHeader& description,
                   const std::function<LayerState(int layer)>& layer,
                   const std::function<void()>& before_rename = {});

/// A snapshot file, mapped and verified to the last byte. Immutable, safe to use from several threads.
/// Copying shares the mapping.
class Snapshot {
 public:
  /// Checks header, lengths, every layer's checksum and the whole file's before it returns. Throws as decode
  /// (snapshot_format.hpp), Error(corrupt) naming the layer that was changed, and as MappedFile::open.
  static Snapshot open(const std::filesystem::path& path);

  const StateContract& contract() const { return header_.contract; }
  /// All ids; the first contract().tokens of them made the state.
  const std::vector<TokenId>& ids() const { return header_.ids; }
  /// Those that the state has not seen yet.
  std::span<const TokenId> pending_ids() const;
  const std::optional<SamplingOptions>& sampling() const { return header_.sampling; }
  /// Whether the sequence carried the mark of unsafe_restart: its state is WRONG on purpose.
  bool unsafe() const { return header_.unsafe; }
  const SnapshotLayout& layout() const { return layout_; }
  /// Of one layer: its parts in the order of LayerState, one after the other. Aligned to 64 bytes; valid as
  /// long as this object or a copy of it lives. REQUIRES: there is such a layer.
  std::span<const std::byte> layer(int layer) const;
  /// As messages name it.
  const std::string& where() const { return where_; }

 private:
  Snapshot() = default;
  void verify_data() const;

  std::string where_;
  std::shared_ptr<const MappedFile> file_;
  SnapshotHeader header_;
  SnapshotLayout layout_;
};

/// Throws Error(mismatch) unless the snapshot is of this arithmetic version, of the manager's element type,
/// geometry and layouts, and of the model with this fingerprint; the message names the field and both values.
void require_fit(const StateManager& manager, const Snapshot& snapshot, std::string_view model);

/// Opens a sequence with the tokens and the state of a snapshot, its layers where `options` says,
/// marked when the snapshot is. Throws as
/// require_fit, then as import_state.
SequenceId import_snapshot(StateManager& manager, const SequenceOptions& options, const Snapshot& snapshot,
                           std::string_view model, OwnedLock* lock = nullptr);

}  // namespace tandem
