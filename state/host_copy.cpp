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

std::int64_t slots_bytes(const std::vector<LayerPieces>& layers) {
  std::int64_t bytes = 0;
  for (const LayerPieces& pieces : layers) bytes = checked_add(bytes, pieces.slot_bytes(), kWhat);
  return bytes;
}

std::int64_t pages_bytes(const std::vector<LayerPieces>& layers, std::int64_t pages) {
  std::int64_t bytes = 0;
  for (const LayerPieces& pieces : layers)
    bytes = checked_add(bytes, checked_mul(pages, pieces.page_stride(), kWhat), kWhat);
  return bytes;
}

/// What each of the two copies has of its own: all slots, and a page of each layer that has pages.
std::int64_t own_bytes(const std::vector<LayerPieces>& layers) {
  return checked_add(slots_bytes(layers), pages_bytes(layers, 1), kWhat);
}

std::int64_t pages_of(const StateGeometry& geometry, std::int64_t tokens) {
  return geometry.count(LayerKind::attention) == 0 ? 0 : geometry.pages_for(tokens);
}

}  // namespace

std::int64_t HostCopy::bytes(const StateGeometry& geometry, std::int64_t context_tokens) {
  const std::vector<LayerPieces> layers = pieces_of(geometry);
  return checked_add(checked_mul(2, own_bytes(layers), kWhat),
                     pages_bytes(layers, pages_of(geometry, context_tokens)), kWhat);
}

HostCopy::HostCopy(const StateGeometry& geometry, std::int64_t context_tokens, Backend& memory, bool verify)
    : geometry_(geometry),
      layers_(pieces_of(geometry)),
      pages_(pages_of(geometry, context_tokens)),
      verify_(verify),
      memory_(memory.allocate_staging(static_cast<std::size_t>(bytes(geometry, context_tokens)))) {}

/// Where a layer's blocks lie on a backend, and here. Without the first pages of a layer, which are the same
/// on both sides.
std::vector<HostCopy::Piece> HostCopy::pieces(const std::function<LayerView(int)>& view_of, std::size_t which,
                                              std::int64_t first_page) const {
  std::vector<Piece> all;
  auto* const begin = static_cast<std::byte*>(memory_.data());
  const std::int64_t own = own_bytes(layers_);
  std::byte* slot = begin + static_cast<std::int64_t>(which) * own;
  std::byte* last_page = slot + slots_bytes(layers_);  // the one that is not full
  std::byte* full_page = begin + 2 * own;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const LayerView view = view_of(static_cast<int>(layer));
    const std::int64_t stride = layers_[layer].page_stride();
    for_each_run(view, [&](const StateRun& run) {
      std::byte* here = slot + run.offset;
      if (run.piece == nullptr) {
        if (run.page < first_page) return;
        here = run.page < full_pages(view.tokens) ? full_page + run.page * stride : last_page;
      }
      all.push_back({view.backend, run.data, here, static_cast<std::size_t>(run.bytes)});
    });
    slot += layers_[layer].slot_bytes();
    last_page += stride;
    full_page += pages_ * stride;
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
  const std::vector<Piece> all = pieces([&](int layer) { return manager.view(id, layer); }, target_, full_);
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
  return tokens == 0 ? 0 : slots_bytes(layers_) + pages_bytes(layers_, pages_of(geometry_, tokens));
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
    const std::vector<Piece> all =
        pieces([&](int layer) { return step.view(layer, 0); }, whole_[0] == tokens ? 0 : 1, 0);
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
