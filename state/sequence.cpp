#include "state/sequence.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>

#include "core/error.hpp"

namespace tandem {

std::string to_string(SequenceId id) { return fmt::format("{}.{}", id.index, id.generation); }

const Version* Sequence::find(std::int64_t number) const {
  const auto found = std::find_if(versions.begin(), versions.end(),
                                  [&](const Version& version) { return version.info.number == number; });
  return found == versions.end() ? nullptr : &*found;
}

void Sequence::commit(std::int64_t count, std::int64_t kept_versions,
                      const StateGeometry& geometry) noexcept {
  const auto written = static_cast<std::int64_t>(next.size());
  assert(count >= 1 && count <= written && versions.size() + next.size() <= versions.capacity());
  std::move(next.begin(), next.begin() + count, std::back_inserter(versions));
  next.clear();
  next_number = newest().info.number + 1;
  const std::int64_t surplus = static_cast<std::int64_t>(versions.size()) - kept_versions;
  if (surplus > 0) versions.erase(versions.begin(), versions.begin() + surplus);
  if (count < written) truncate_pages(geometry);
}

void Sequence::truncate_pages(const StateGeometry& geometry) noexcept {
  for (std::size_t layer = 0; layer < pages.size(); ++layer) {
    if (geometry.layers[layer] == LayerKind::attention)
      pages[layer].truncate(geometry.pages_for(newest().info.tokens));
  }
}

void Sequence::keep_oldest(std::int64_t count, const StateGeometry& geometry) noexcept {
  next.clear();
  versions.erase(versions.begin() + count, versions.end());
  truncate_pages(geometry);
}

LayerBlocks Sequence::map_blocks(std::size_t layer,
                                 const std::function<BlockRef(const BlockRef&, Storage)>& other) const {
  LayerBlocks blocks;
  for (const Version& version : versions) {
    if (version.slots[layer]) blocks.slots.push_back(other(version.slots[layer], Storage::slot));
  }
  blocks.pages.reserve(pages[layer].size());
  for (std::int64_t i = 0; i < pages[layer].size(); ++i)
    blocks.pages.append(other(pages[layer][i], Storage::pages));
  return blocks;
}

void Sequence::put_blocks(std::size_t layer, int backend, LayerBlocks blocks) noexcept {
  home[layer] = backend;
  assert(blocks.slots.empty() || blocks.slots.size() == versions.size());
  for (std::size_t v = 0; v < blocks.slots.size(); ++v) versions[v].slots[layer] = std::move(blocks.slots[v]);
  pages[layer] = std::move(blocks.pages);
}

}  // namespace tandem
