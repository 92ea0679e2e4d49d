#include "state/migration.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "core/error.hpp"
#include "state/block_transfer.hpp"

namespace tandem {

/// One call of migrate(). Until commit() it only owns: the blocks that it took go back with it.
class Migration {
 public:
  explicit Migration(StateManager& manager) : manager_(manager), geometry_(manager.geometry_) {}

  void plan(std::span<const Move> moves);
  void reserve();
  void copy() { BlockTransfer().run(copies_); }
  void verify();
  void commit() noexcept;

  /// "layer 3 of sequence 0.1 and 4 more".
  std::string what() const;
  MigrationReport& report() { return report_; }

 private:
  /// A sequence and the homes that its layers shall have.
  struct Relocation {
    Sequence* sequence;
    std::vector<int> home;
    std::vector<bool> named;  ///< by layer
  };
  /// A layer's blocks on the target; report_.layers has the rest, by the same index.
  struct Arrival {
    Sequence* sequence;
    std::vector<BlockRef> slots;  ///< by kept version; none for a kv layer
    PageList pages;
  };

  Relocation& relocation(SequenceId id);
  void reserve_layer(Sequence& sequence, MovedLayer& moved, Arrival& arrival);
  BlockRef target_slot(MovedLayer& moved, const BlockRef& source);
  BlockRef target_page(MovedLayer& moved, const BlockRef& source);
  template <class Pool>
  BlockRef target_block(MovedLayer& moved, const BlockRef& source, Pool& pool, std::int64_t bytes);
  LayerView arrived(const MovedLayer& moved, const Arrival& arrival, std::size_t version) const;
  Checksum verified(const MovedLayer& moved, const LayerView& arrived, const VersionInfo& version) const;
  StateManager::Place& place(int backend) { return manager_.places_[static_cast<std::size_t>(backend)]; }

  StateManager& manager_;
  const StateGeometry& geometry_;
  std::vector<Relocation> relocations_;
  std::vector<Arrival> arrivals_;
  std::vector<BlockCopy> copies_;
  /// Blocks that have been taken, by source backend, source block and target backend.
  std::map<std::tuple<int, const void*, int>, BlockRef> taken_;
  MigrationReport report_;
};

Migration::Relocation& Migration::relocation(SequenceId id) {
  Sequence& sequence = manager_.find_idle(id, "migrate it");
  const auto found = std::find_if(relocations_.begin(), relocations_.end(),
                                  [&](const Relocation& r) { return r.sequence == &sequence; });
  if (found != relocations_.end()) return *found;
  return relocations_.emplace_back(
      Relocation{&sequence, sequence.home, std::vector<bool>(sequence.home.size(), false)});
}

void Migration::plan(std::span<const Move> moves) {
  for (const Move& move : moves) {
    Relocation& relocation = this->relocation(move.sequence);
    std::vector<int> layers = move.layers;
    for (int layer = 0; move.layers.empty() && layer < manager_.layer_count(); ++layer)
      layers.push_back(layer);
    for (int layer : layers) {
      manager_.require_layer(layer);
      const auto l = static_cast<std::size_t>(layer);
      if (relocation.named[l] && relocation.home[l] != move.backend) {
        fail(ErrorCode::invalid_argument, "layer {} of sequence {} is to go to two backends, {} and {}",
             layer, to_string(move.sequence), relocation.home[l], move.backend);
      }
      relocation.named[l] = true;
      relocation.home[l] = move.backend;
    }
  }
  for (const Relocation& r : relocations_) {
    manager_.require_homes({r.sequence->residency, r.home});
    for (std::size_t l = 0; l < r.home.size(); ++l) {
      if (r.home[l] == r.sequence->home[l]) continue;
      report_.layers.push_back({r.sequence->id, static_cast<int>(l), r.sequence->home[l], r.home[l], 0, {}});
      arrivals_.push_back({r.sequence, {}, {}});
    }
  }
}

std::string Migration::what() const {
  if (report_.layers.empty()) return "nothing";
  const MovedLayer& first = report_.layers.front();
  const std::string more =
      report_.layers.size() > 1 ? fmt::format(" and {} more", report_.layers.size() - 1) : "";
  return fmt::format("layer {} of sequence {}{} from {} to {}", first.layer, to_string(first.sequence), more,
                     manager_.backend_name(first.from), manager_.backend_name(first.to));
}

template <class Pool>
BlockRef Migration::target_block(MovedLayer& moved, const BlockRef& source, Pool& pool, std::int64_t bytes) {
  BlockRef& target = taken_[{moved.from, source.data(), moved.to}];
  if (target) return target;
  target = pool.acquire();
  copies_.push_back({place(moved.from).backend, place(moved.to).backend, source.data(), target.data(),
                     static_cast<std::size_t>(bytes)});
  moved.bytes += bytes;
  report_.bytes += bytes;
  return target;
}

BlockRef Migration::target_slot(MovedLayer& moved, const BlockRef& source) {
  SlotPool& slots = place(moved.to).slots;
  if (source.index() == place(moved.from).slots.zero().index()) return slots.zero();
  return target_block(moved, source, slots, slots.slot_bytes());
}

BlockRef Migration::target_page(MovedLayer& moved, const BlockRef& source) {
  PagePool& pages = place(moved.to).pages;
  return target_block(moved, source, pages, pages.page_stride());
}

void Migration::reserve_layer(Sequence& sequence, MovedLayer& moved, Arrival& arrival) {
  const auto l = static_cast<std::size_t>(moved.layer);
  if (geometry_.layers[l] == LayerKind::recurrent) {
    for (const Version& version : sequence.versions)
      arrival.slots.push_back(target_slot(moved, version.slots[l]));
    return;
  }
  const PageList& pages = sequence.pages[l];
  arrival.pages.reserve(pages.size());
  for (std::int64_t i = 0; i < pages.size(); ++i) arrival.pages.append(target_page(moved, pages[i]));
}

void Migration::reserve() {
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    reserve_layer(*arrivals_[i].sequence, report_.layers[i], arrivals_[i]);
  }
}

/// As StateManager::view will show it. `version` counts the kept ones.
LayerView Migration::arrived(const MovedLayer& moved, const Arrival& arrival, std::size_t version) const {
  LayerView view;
  view.kind = geometry_.layers[static_cast<std::size_t>(moved.layer)];
  view.backend = manager_.places_[static_cast<std::size_t>(moved.to)].backend;
  view.tokens = arrival.sequence->versions[version].info.tokens;
  if (view.kind == LayerKind::recurrent) {
    view.recurrent = recurrent_view(geometry_, arrival.slots[version]);
    view.conv = conv_view(geometry_, arrival.slots[version]);
  } else {
    view.pages = arrival.pages.data();
  }
  return view;
}

Checksum Migration::verified(const MovedLayer& moved, const LayerView& arrived,
                             const VersionInfo& version) const {
  const Checksum source = checksum(export_layer(manager_, moved.sequence, moved.layer, version.number));
  const Checksum target = checksum(export_layer(geometry_, arrived));
  if (source != target) {
    fail(ErrorCode::mismatch, "layer {} of sequence {}, version {}: {} on {}, but {} arrived on {}",
         moved.layer, to_string(moved.sequence), version.number, to_string(source),
         manager_.backend_name(moved.from), to_string(target), manager_.backend_name(moved.to));
  }
  return source;
}

void Migration::verify() {
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    MovedLayer& moved = report_.layers[i];
    const std::vector<Version>& versions = arrivals_[i].sequence->versions;
    const bool recurrent = geometry_.layers[static_cast<std::size_t>(moved.layer)] == LayerKind::recurrent;
    for (std::size_t v = recurrent ? 0 : versions.size() - 1; v < versions.size(); ++v) {
      const VersionInfo& info = versions[v].info;
      moved.versions.push_back({info, verified(moved, arrived(moved, arrivals_[i], v), info)});
    }
  }
}

void Migration::commit() noexcept {
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    Sequence& sequence = *arrivals_[i].sequence;
    const auto l = static_cast<std::size_t>(report_.layers[i].layer);
    sequence.home[l] = report_.layers[i].to;
    for (std::size_t v = 0; v < arrivals_[i].slots.size(); ++v)
      sequence.versions[v].slots[l] = std::move(arrivals_[i].slots[v]);
    sequence.pages[l] = std::move(arrivals_[i].pages);
  }
}

MigrationReport migrate(StateManager& manager, std::span<const Move> moves) {
  const auto start = std::chrono::steady_clock::now();
  Migration migration(manager);
  migration.plan(moves);
  try {
    migration.reserve();
    migration.copy();
    migration.verify();
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("migration of {}: {} (nothing was moved)", migration.what(), error.what()));
  }
  migration.commit();
  migration.report().milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return std::move(migration.report());
}

MigrationReport migrate(StateManager& manager, const Move& move) { return migrate(manager, {&move, 1}); }

}  // namespace tandem
