#include "state/unsafe_restart.hpp"

#include <cstddef>
#include <utility>

namespace tandem {

/// Has the manager's trust, as Migration has.
class UnsafeRestart {
 public:
  UnsafeRestart(StateManager& manager, SequenceId id)
      : manager_(manager), sequence_(manager.find_idle(id, "restart it")) {}

  void run(const std::vector<int>& homes) {
    manager_.require_homes({sequence_.residency, homes});
    std::vector<LayerBlocks> zeros(homes.size());
    for (std::size_t l = 0; l < homes.size(); ++l) {
      if (homes[l] != sequence_.home[l]) zeros[l] = zero_blocks(l, homes[l]);
    }
    // From here on nothing throws.
    for (std::size_t l = 0; l < homes.size(); ++l) {
      if (homes[l] != sequence_.home[l]) sequence_.put_blocks(l, homes[l], std::move(zeros[l]));
    }
    sequence_.unsafe = true;
  }

 private:
  /// The same blocks there, full of zeros.
  LayerBlocks zero_blocks(std::size_t layer, int backend) {
    StateManager::Place& place = manager_.places_[static_cast<std::size_t>(backend)];
    const std::vector<std::byte> zeros(static_cast<std::size_t>(place.pages.page_stride()));
    return sequence_.map_blocks(layer, [&](const BlockRef&, Storage storage) {
      if (storage == Storage::slot) return place.slots.zero();
      BlockRef page = place.pages.acquire();
      place.backend->upload(page.data(), zeros.data(), zeros.size());
      return page;
    });
  }

  StateManager& manager_;
  Sequence& sequence_;
};

void unsafe_restart(StateManager& manager, SequenceId id, const std::vector<int>& homes) {
  UnsafeRestart(manager, id).run(homes);
}

}  // namespace tandem
