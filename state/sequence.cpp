#include "state/sequence.hpp"

#include <algorithm>
#include <cassert>

#include "core/error.hpp"

namespace tandem {

std::string to_string(SequenceId id) { return fmt::format("{}.{}", id.index, id.generation); }

const Version* Sequence::find(std::int64_t number) const {
  const auto found = std::find_if(versions.begin(), versions.end(),
                                  [&](const Version& version) { return version.info.number == number; });
  return found == versions.end() ? nullptr : &*found;
}

void Sequence::commit(std::int64_t kept_versions) noexcept {
  assert(next && versions.size() < versions.capacity());
  versions.push_back(std::move(*next));
  next.reset();
  ++next_number;
  if (static_cast<std::int64_t>(versions.size()) > kept_versions) versions.erase(versions.begin());
}

void Sequence::keep_oldest(std::int64_t count, const StateGeometry& geometry) noexcept {
  next.reset();
  versions.erase(versions.begin() + count, versions.end());
  for (std::size_t layer = 0; layer < pages.size(); ++layer) {
    if (geometry.layers[layer] == LayerKind::kv)
      pages[layer].truncate(geometry.pages_for(newest().info.tokens));
  }
}

}  // namespace tandem
