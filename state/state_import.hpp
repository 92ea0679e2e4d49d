#pragma once

#include <cstddef>
#include <span>

#include "core/owned_mutex.hpp"
#include "state/layer_state.hpp"

namespace tandem {

/// Opens a sequence that remembers what it is given: `tokens` tokens, and for each layer the bytes of its
/// LayerState, parts in order and nothing between (layer_state_bytes() of them, any alignment). Its layers
/// live where `options` says, whatever the homes of who exported them. The new version is the newest; the
/// sequence's beginning, version 0, is kept before it when kept_versions allows.
///
/// All or nothing: when it throws, no sequence was opened and everything taken was given back. Throws
/// Error(mismatch) for another number of layers or bytes than the geometry's, Error(invalid_argument) when
/// the context has no room for the tokens or state of 0 tokens is not zero, as StateManager::open and
/// Backend::upload. The bytes are free to go when it returns.
///
/// With StateBudget::verify all is read again: Error(mismatch) when it arrived differently. `lock` is what
/// guards the manager, if something does: it is let go of while bytes are copied.
///
/// Whether they mean the same here is what a StateContract is for. Not thread-safe, as the manager.
SequenceId import_state(StateManager& manager, const SequenceOptions& options, std::int64_t tokens,
                        std::span<const std::span<const std::byte>> layers, OwnedLock* lock = nullptr);

}  // namespace tandem
