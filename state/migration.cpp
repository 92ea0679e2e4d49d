#include "state/migration.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "state/block_transfer.hpp"

namespace tandem {

/// One call of migrate(). Until commit() it only owns: the blocks that it took go back with it.
class Migration {
 public:
  explicit Migration(StateManager& manager) : manager_(manager), geometry_(manager.geometry_) {}

  void plan(std::span<const Move> moves);
  void reserve();
  void carry() { checksums_ = BlockTransfer().run(blocks_); }
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
    LayerBlocks there;
    std::vector<std::size_t> blocks;  ///< indices of blocks_: of the slots, then of the pages
  };
  struct Target {
    BlockRef block;
    std::size_t index;  ///< of blocks_
  };

  Relocation& relocation(SequenceId id);
  BlockRef target_slot(MovedLayer& moved, Arrival& arrival, const BlockRef& source);
  BlockRef target_page(MovedLayer& moved, Arrival& arrival, const BlockRef& source);
  template <class Take>
  BlockRef target_block(MovedLayer& moved, Arrival& arrival, BlockCopy block, const BlockRef& source,
                        const Take& take);
  BlockCopy block_copy(const MovedLayer& moved, std::int64_t bytes, bool page_locked);
  Checksum joined(std::span<const std::size_t> blocks, Checksum BlockChecksums::*side) const;
  Checksum verified(const MovedLayer& moved, std::span<const std::size_t> blocks,
                    const VersionInfo& version) const;
  StateManager::Place& place(int backend) { return manager_.places_[static_cast<std::size_t>(backend)]; }

  StateManager& manager_;
  const StateGeometry& geometry_;
  std::vector<Relocation> relocations_;
  std::vector<Arrival> arrivals_;
  std::vector<BlockCopy> blocks_;          ///< each once, whoever refers to it
  std::vector<BlockChecksums> checksums_;  ///< of blocks_
  /// Blocks on the targets, by source backend, source block and target backend.
  std::map<std::tuple<int, const void*, int>, Target> taken_;
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

/// Between two backends of host memory, the one that receives reaches the other's.
BlockCopy Migration::block_copy(const MovedLayer& moved, std::int64_t bytes, bool page_locked) {
  BlockCopy copy{.from = place(moved.from).backend,
                 .to = place(moved.to).backend,
                 .bytes = static_cast<std::size_t>(bytes)};
  const bool from_host = copy.from->info().host_memory, to_host = copy.to->info().host_memory;
  const bool reached = from_host == to_host ? from_host : page_locked;
  copy.path = reached ? Path::direct : Path::staged;
  return copy;
}

template <class Take>
BlockRef Migration::target_block(MovedLayer& moved, Arrival& arrival, BlockCopy block, const BlockRef& source,
                                 const Take& take) {
  Target& target = taken_[{moved.from, source.data(), moved.to}];
  if (!target.block) {
    target = {take(), blocks_.size()};
    block.source = source.data();
    block.target = target.block.data();
    blocks_.push_back(block);
    const auto bytes = block.path == Path::there ? 0 : static_cast<std::int64_t>(block.bytes);
    moved.bytes += bytes;
    report_.bytes += bytes;
  }
  arrival.blocks.push_back(target.index);
  return target.block;
}

BlockRef Migration::target_slot(MovedLayer& moved, Arrival& arrival, const BlockRef& source) {
  SlotPool &from = place(moved.from).slots, &to = place(moved.to).slots;
  BlockCopy block = block_copy(moved, to.slot_bytes(), from.page_locked() || to.page_locked());
  const bool is_zero = source.index() == from.zero().index();
  if (is_zero) block.path = Path::there;
  return target_block(moved, arrival, block, source, [&] { return is_zero ? to.zero() : to.acquire(); });
}

BlockRef Migration::target_page(MovedLayer& moved, Arrival& arrival, const BlockRef& source) {
  PagePool &from = place(moved.from).pages, &to = place(moved.to).pages;
  const BlockCopy block = block_copy(moved, to.page_stride(), from.page_locked() || to.page_locked());
  return target_block(moved, arrival, block, source, [&] { return to.acquire(); });
}

void Migration::reserve() {
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    MovedLayer& moved = report_.layers[i];
    Arrival& arrival = arrivals_[i];
    arrival.there = arrival.sequence->map_blocks(
        static_cast<std::size_t>(moved.layer), [&](const BlockRef& source, Storage storage) {
          return storage == Storage::slot ? target_slot(moved, arrival, source)
                                          : target_page(moved, arrival, source);
        });
  }
}

Checksum Migration::joined(std::span<const std::size_t> blocks, Checksum BlockChecksums::*side) const {
  std::vector<Checksum> checksums;
  for (std::size_t block : blocks) checksums.push_back(checksums_[block].*side);
  return join_checksums(checksums);
}

Checksum Migration::verified(const MovedLayer& moved, std::span<const std::size_t> blocks,
                             const VersionInfo& version) const {
  const Checksum source = joined(blocks, &BlockChecksums::source);
  const Checksum target = joined(blocks, &BlockChecksums::target);
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
    const std::span<const std::size_t> blocks = arrivals_[i].blocks;
    const std::size_t slots = arrivals_[i].there.slots.size();
    // A version has its slot; the newest has all pages, too, of which the older ones have the first tokens.
    for (std::size_t v = slots > 0 ? 0 : versions.size() - 1; v < versions.size(); ++v) {
      const bool newest = v + 1 == versions.size();
      const auto its = blocks.subspan(slots > 0 ? v : 0, newest ? std::dynamic_extent : 1);
      moved.versions.push_back({versions[v].info, verified(moved, its, versions[v].info)});
    }
  }
}

void Migration::commit() noexcept {
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    const MovedLayer& moved = report_.layers[i];
    arrivals_[i].sequence->put_blocks(static_cast<std::size_t>(moved.layer), moved.to,
                                      std::move(arrivals_[i].there));
  }
}

MigrationReport migrate(StateManager& manager, std::span<const Move> moves, OwnedLock* lock) {
  const Stopwatch clock;
  Migration migration(manager);
  migration.plan(moves);
  try {
    migration.reserve();
    const Released released(lock);
    migration.carry();
    migration.verify();
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("migration of {}: {} (nothing was moved)", migration.what(), error.what()));
  }
  migration.commit();
  migration.report().milliseconds = clock.milliseconds();
  return std::move(migration.report());
}

MigrationReport migrate(StateManager& manager, const Move& move, OwnedLock* lock) {
  return migrate(manager, {&move, 1}, lock);
}

}  // namespace tandem
