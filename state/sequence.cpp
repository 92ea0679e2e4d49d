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
    if (geometry.layers[layer] == LayerKind::kv)
      pages[layer].truncate(geometry.pages_for(newest().info.tokens));
  }
}

void Sequence::keep_oldest(std::int64_t count, const StateGeometry& geometry) noexcept {
  next.clear();
  versions.erase(versions.begin() + count, versions.end());
  truncate_pages(geometry);
}

}  // namespace tandem
