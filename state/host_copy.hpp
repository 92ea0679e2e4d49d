#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/owned_mutex.hpp"
#include "state/block_copy.hpp"
#include "state/state_manager.hpp"

namespace tandem {

/// The last two versions of one sequence that were copied to the host, so that it can be opened again where
/// its state has not been when a backend is gone with it. Two, as the older one stays whole while the newer
/// one is under way. Keys and values only grow: full pages of them are kept once, for both.
///
/// A fresh copy knows the beginning of every sequence: 0 tokens.
///
/// What is under way when it goes is waited for, as the memory goes with it.
///
/// Not thread-safe, as the manager. The backend whose memory it is, and those of the sequence, outlive it.
/// `lock` is what guards the manager, if something does: it is let go of while bytes are copied.
class HostCopy {
 public:
  /// What it takes for sequences of this context. Throws Error(invalid_argument) past 63 bits.
  static std::int64_t bytes(const StateGeometry& geometry, std::int64_t context_tokens);

  /// Takes that of `memory`'s staging memory, which other backends reach without a detour. With `verify`
  /// what arrives is read a second time and compared. Throws as Backend::allocate_staging.
  HostCopy(const StateGeometry& geometry, std::int64_t context_tokens, Backend& memory, bool verify);
  HostCopy(HostCopy&&) = default;
  HostCopy& operator=(HostCopy&&) = delete;

  /// Begins to copy the newest version of a sequence and returns how many bytes that is: all of the recurrent
  /// state, and the pages that were not copied or not full before. Backends that can, copy while the next
  /// step goes on (with `verify` it waits). What was under way before is waited for. REQUIRES: always the
  /// same sequence, until clear(). On an Error (mismatch when something arrived wrong; what backends throw)
  /// the copies that were whole still are.
  std::int64_t take(const StateManager& manager, SequenceId id, OwnedLock* lock = nullptr);

  /// Waits for what is under way. On an Error it is dropped.
  void finish();

  /// The sequence goes on from `tokens`: copies of more tokens are no beginning of it any more.
  void forget_beyond(std::int64_t tokens);
  /// It is of another sequence from now on. Whether 0 tokens count as a copy of that: for one that began long
  /// ago that is a long way to go again.
  void clear(bool knows_beginning = true);

  /// Of the copies that are whole, the larger number first.
  std::vector<std::int64_t> tokens() const;
  /// Of what was taken last, whole or not; -1 when there is nothing.
  std::int64_t newest() const;

  /// Opens a sequence that remembers the copy of that many tokens (0: nothing), its layers where `options`
  /// says. All or nothing. Throws as StateManager::open and begin, and what the backends throw; mismatch as
  /// take. REQUIRES: tokens() has it, or it is 0.
  SequenceId restore(StateManager& manager, const SequenceOptions& options, std::int64_t tokens,
                     OwnedLock* lock = nullptr) const;
  /// What that writes.
  std::int64_t restored_bytes(std::int64_t tokens) const;

 private:
  /// A block of the copy and of a backend.
  struct Piece {
    Backend* backend;
    void* there;
    std::byte* here;
    std::size_t bytes;
  };

  std::vector<Piece> pieces(const std::function<LayerView(int)>& view_of, std::size_t which,
                            std::int64_t first_page) const;
  std::int64_t full_pages(std::int64_t tokens) const { return tokens / geometry_.kv.page_tokens; }
  void require_equal(const Piece& piece) const;
  void receive(std::span<const Piece> pieces);
  void write(std::span<const Piece> pieces) const;
  void arrived(std::int64_t tokens);

  StateGeometry geometry_;
  std::vector<LayerPieces> layers_;
  std::int64_t pages_;  ///< of a layer
  bool verify_;
  Buffer memory_;  ///< of each copy the slots and the pages that are not full; then the full pages
  std::array<std::int64_t, 2> whole_{0, -1};  ///< tokens; -1: there is none
  std::int64_t full_ = 0;                     ///< full pages of a layer that are here
  std::size_t target_ = 0;                    ///< the copy that is under way
  std::int64_t coming_ = -1;                  ///< its tokens; -1: it is not wanted, or there is none
  std::vector<std::unique_ptr<Event>> under_way_;
  BusyBackends busy_;  ///< after the memory, which they may still write
};

}  // namespace tandem
