#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "graph/session/sampler.hpp"
#include "graph/session/session.hpp"
#include "state/snapshot.hpp"

namespace tandem {

/// Writes a sequence of a session to a file (state/snapshot.hpp). `ids` are all tokens that were fed to it,
/// then any that are to be fed next: the caller knows them, also of a sequence that came from a file.
/// `sampling` is for whoever continues. Changes nothing. Throws as save_snapshot; Error(invalid_argument) for
/// ids outside the vocabulary. `before_rename` as in NewFile::publish.
///
/// A verb of the sequence, as to threads (Session). Others wait for it only while a layer is downloaded from
/// the backend that they use, and never for the disk.
void save_sequence(const std::filesystem::path& path, const Session& session, SequenceId sequence,
                   std::span<const TokenId> ids, const std::optional<SamplingOptions>& sampling = {},
                   const std::function<void()>& before_rename = {});

/// Opens a sequence of a session with the tokens and state of a snapshot, each layer where the session's plan
/// has it: any placement, whatever the one that made it. Feeding it snapshot.pending_ids() and more gives the
/// bits of a sequence that was never interrupted; it can be replayed as one. All or nothing. Throws as
/// import_snapshot; Error(corrupt) for ids outside the vocabulary.
SequenceId load_sequence(Session& session, const Snapshot& snapshot);

/// The sampling that a snapshot carries; greedy when it carries none. Throws Error(corrupt) for options
/// without meaning.
SamplingOptions sampling_of(const Snapshot& snapshot);

}  // namespace tandem
