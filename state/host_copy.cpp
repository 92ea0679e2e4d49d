#include "state/host_copy.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/shape.hpp"

namespace tandem {
namespace {

constexpr const char* kWhat = "bytes of a host copy";

std::int64_t slots_bytes(const StateGeometry& geometry) {
  const std::int64_t layers = geometry.count(LayerKind::recurrent);
  return layers == 0 ? 0 : checked_mul(layers, geometry.slot_bytes(), kWhat);
}

std::int64_t pages_bytes(const StateGeometry& geometry, std::int64_t pages) {
  const std::int64_t layers = geometry.count(LayerKind::kv);
  return layers == 0 ? 0 : checked_mul(checked_mul(layers, pages, kWhat), geometry.page_stride(), kWhat);
}

/// What each of the two copies has of its own: all slots, and a page of each kv layer.
std::int64_t own_bytes(const StateGeometry& geometry) {
  return checked_add(slots_bytes(geometry), pages_bytes(geometry, 1), kWhat);
}

std::int64_t pages_of(const StateGeometry& geometry, std::int64_t tokens) {
  return geometry.count(LayerKind::kv) == 0 ? 0 : geometry.pages_for(tokens);
}

}  // namespace

std::int64_t HostCopy::bytes(const StateGeometry& geometry, std::int64_t context_tokens) {
  return checked_add(checked_mul(2, own_bytes(geometry), kWhat),
                     pages_bytes(geometry, pages_of(geometry, context_tokens)), kWhat);
}

HostCopy::HostCopy(const StateGeometry& geometry, std::int64_t context_tokens, Backend& memory, bool verify)
    : geometry_(geometry),
      pages_(pages_of(geometry, context_tokens)),
      verify_(verify),
      memory_(memory.allocate_staging(static_cast<std::size_t>(bytes(geometry, context_tokens)))) {}

std::byte* HostCopy::slot(std::size_t which, std::int64_t recurrent_layer) const {
  return static_cast<std::byte*>(memory_.data()) + static_cast<std::int64_t>(which) * own_bytes(geometry_) +
         recurrent_layer * geometry_.slot_bytes();
}

/// A page of the copy that has that many tokens.
std::byte* HostCopy::page(std::size_t which, std::int64_t kv_layer, std::int64_t page,
                          std::int64_t tokens) const {
  if (page >= full_pages(tokens)) {
    return slot(which, 0) + slots_bytes(geometry_) + kv_layer * geometry_.page_stride();
  }
  return slot(2, 0) + (kv_layer * pages_ + page) * geometry_.page_stride();
}

/// Where the newest version lies and where it goes: without the full pages that are here already.
std::vector<HostCopy::Piece> HostCopy::pieces(const StateManager& manager, SequenceId id,
                                              std::size_t which) const {
  std::vector<Piece> all;
  std::int64_t recurrent = 0, kv = 0;
  for (std::size_t layer = 0; layer < geometry_.layers.size(); ++layer) {
    const LayerView view = manager.view(id, static_cast<int>(layer));
    const auto add = [&](const void* there, std::byte* here, std::int64_t bytes) {
      all.push_back({view.backend, const_cast<void*>(there), here, static_cast<std::size_t>(bytes)});
    };
    if (view.kind == LayerKind::recurrent) {
      std::byte* here = slot(which, recurrent++);
      add(view.recurrent.data, here, geometry_.recurrent_bytes());
      add(view.conv.data, here + geometry_.conv_offset(), geometry_.conv_bytes());
      continue;
    }
    for (std::int64_t i = full_; i < std::ssize(view.pages); ++i) {
      add(view.pages[static_cast<std::size_t>(i)], page(which, kv, i, view.tokens), geometry_.page_bytes());
    }
    ++kv;
  }
  return all;
}

/// Where a restored version is to be written.
std::vector<HostCopy::Piece> HostCopy::pieces(StateManager& manager, const StateStep& step,
                                              std::size_t which) const {
  std::vector<Piece> all;
  std::int64_t recurrent = 0, kv = 0;
  for (std::size_t l = 0; l < geometry_.layers.size(); ++l) {
    const int layer = static_cast<int>(l), home = manager.home(step.sequence(), layer);
    Backend* backend = manager.view(step.sequence(), layer).backend;
    const auto add = [&](void* there, std::byte* here, std::int64_t bytes) {
      all.push_back({backend, there, here, static_cast<std::size_t>(bytes)});
    };
    if (geometry_.layers[l] == LayerKind::recurrent) {
      std::byte* here = slot(which, recurrent++);
      add(step.recurrent_out(layer, home).data, here, geometry_.recurrent_bytes());
      add(step.conv_out(layer, home).data, here + geometry_.conv_offset(), geometry_.conv_bytes());
      continue;
    }
    const std::span<void* const> pages = step.pages(layer, home);
    for (std::int64_t i = 0; i < std::ssize(pages); ++i) {
      add(pages[static_cast<std::size_t>(i)], page(which, kv, i, step.tokens()), geometry_.page_bytes());
    }
    ++kv;
  }
  return all;
}

void HostCopy::require_equal(const Piece& piece) const {
  std::vector<std::byte> again(piece.bytes);
  piece.backend->download(again.data(), piece.there, again.size());
  if (std::memcmp(again.data(), piece.here, again.size()) == 0) return;
  fail(ErrorCode::mismatch,
       "host copy: {} bytes of state on {} and on the host differ after they were copied", piece.bytes,
       piece.backend->info().name);
}

void HostCopy::receive(std::span<const Piece> pieces) {
  std::set<Backend*> used;
  try {
    for (const Piece& piece : pieces) {
      busy_.add(*piece.backend);
      piece.backend->receive(piece.here, piece.there, piece.bytes);
      used.insert(piece.backend);
    }
    for (Backend* backend : used) under_way_.push_back(backend->record());
  } catch (...) {
    under_way_.clear();
    busy_.settle();
    throw;
  }
}

std::int64_t HostCopy::take(const StateManager& manager, SequenceId id, OwnedLock* lock) {
  {
    const Released released(lock);
    finish();
  }
  target_ = whole_[0] < whole_[1] ? 0 : 1;
  whole_[target_] = -1;
  const std::vector<Piece> all = pieces(manager, id, target_);
  const std::int64_t taken = manager.tokens(id);
  const Released released(lock);
  receive(all);
  std::int64_t bytes = 0;
  for (const Piece& piece : all) bytes += static_cast<std::int64_t>(piece.bytes);
  if (!verify_) {
    coming_ = taken;
    return bytes;
  }
  finish();  // until it was compared nothing has come
  for (const Piece& piece : all) require_equal(piece);
  arrived(taken);
  return bytes;
}

void HostCopy::finish() {
  const std::vector<std::unique_ptr<Event>> events = std::exchange(under_way_, {});
  const std::int64_t tokens = std::exchange(coming_, -1);
  try {
    for (const auto& event : events) event->wait();
  } catch (...) {
    busy_.settle();
    throw;
  }
  busy_.clear();
  if (tokens >= 0) arrived(tokens);
}

void HostCopy::arrived(std::int64_t tokens) {
  whole_[target_] = tokens;
  full_ = pages_ > 0 ? full_pages(tokens) : 0;
}

void HostCopy::forget_beyond(std::int64_t tokens) {
  for (std::int64_t& whole : whole_) whole = whole > tokens ? -1 : whole;
  if (coming_ > tokens) coming_ = -1;
  full_ = pages_ > 0 ? std::min(full_, full_pages(tokens)) : 0;
}

void HostCopy::clear(bool knows_beginning) {
  forget_beyond(0);
  whole_ = {knows_beginning ? 0 : -1, -1};
}

std::vector<std::int64_t> HostCopy::tokens() const {
  std::vector<std::int64_t> all;
  for (std::int64_t tokens : {std::max(whole_[0], whole_[1]), std::min(whole_[0], whole_[1])}) {
    if (tokens >= 0) all.push_back(tokens);
  }
  return all;
}

std::int64_t HostCopy::newest() const { return std::max({whole_[0], whole_[1], coming_}); }

std::int64_t HostCopy::restored_bytes(std::int64_t tokens) const {
  return tokens == 0 ? 0 : slots_bytes(geometry_) + pages_bytes(geometry_, pages_of(geometry_, tokens));
}

/// What went wrong shows before it returns.
void HostCopy::write(std::span<const Piece> pieces) const {
  std::set<Backend*> used;
  for (const Piece& piece : pieces) {
    piece.backend->upload(piece.there, piece.here, piece.bytes);
    used.insert(piece.backend);
  }
  for (Backend* backend : used) backend->synchronize();
  if (verify_) std::for_each(pieces.begin(), pieces.end(), [&](const Piece& p) { require_equal(p); });
}

SequenceId HostCopy::restore(StateManager& manager, const SequenceOptions& options, std::int64_t tokens,
                             OwnedLock* lock) const {
  const SequenceId id = manager.open(options);
  if (tokens == 0) return id;
  try {
    StateStep step = manager.begin(id, tokens);
    const std::vector<Piece> all = pieces(manager, step, whole_[0] == tokens ? 0 : 1);
    {
      const Released released(lock);
      write(all);
    }
    step.commit();
  } catch (...) {
    manager.close(id);
    throw;
  }
  return id;
}

}  // namespace tandem
