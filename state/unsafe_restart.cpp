#include "state/unsafe_restart.hpp"

#include <cstddef>

namespace tandem {

/// Has the manager's trust, as Migration has.
class UnsafeRestart {
 public:
  UnsafeRestart(StateManager& manager, SequenceId id)
      : manager_(manager), sequence_(manager.find_idle(id, "restart it")) {}

  void run(const std::vector<int>& homes) {
    manager_.require_homes({sequence_.residency, homes});
    std::vector<PageList> pages(homes.size());
    for (std::size_t l = 0; l < homes.size(); ++l) {
      const bool kv = manager_.geometry_.layers[l] == LayerKind::kv;
      if (kv && homes[l] != sequence_.home[l]) pages[l] = zero_pages(homes[l], sequence_.pages[l].size());
    }
    // From here on nothing throws.
    for (std::size_t l = 0; l < homes.size(); ++l) {
      if (homes[l] != sequence_.home[l]) put(l, homes[l], pages[l]);
    }
    sequence_.unsafe = true;
  }

 private:
  StateManager::Place& place(int backend) { return manager_.places_[static_cast<std::size_t>(backend)]; }

  PageList zero_pages(int backend, std::int64_t count) {
    StateManager::Place& where = place(backend);
    const std::vector<std::byte> zeros(static_cast<std::size_t>(where.pages.page_stride()));
    PageList list;
    list.reserve(count);
    for (std::int64_t i = 0; i < count; ++i) {
      list.append(where.pages.acquire());
      where.backend->upload(list[i].data(), zeros.data(), zeros.size());
    }
    return list;
  }

  void put(std::size_t layer, int backend, PageList& pages) noexcept {
    sequence_.home[layer] = backend;
    if (manager_.geometry_.layers[layer] == LayerKind::recurrent) {
      for (Version& version : sequence_.versions) version.slots[layer] = place(backend).slots.zero();
    }
    sequence_.pages[layer] = std::move(pages);
  }

  StateManager& manager_;
  Sequence& sequence_;
};

void unsafe_restart(StateManager& manager, SequenceId id, const std::vector<int>& homes) {
  UnsafeRestart(manager, id).run(homes);
}

}  // namespace tandem
