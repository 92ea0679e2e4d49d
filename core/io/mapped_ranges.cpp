#include "core/io/mapped_ranges.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/text/printable.hpp"

namespace tandem {
namespace {

constexpr std::size_t kLongestPath = 400;

struct RangeEntry {
  std::atomic<bool> taken{false};
  std::atomic<std::uintptr_t> begin{0};  ///< 0: not ready
  std::atomic<std::uintptr_t> end{0};
  char path[kLongestPath + 1];
};

/// Shards of a large model are some hundred.
std::array<RangeEntry, 1024> mapped_ranges;

}  // namespace

MappedRange::MappedRange(std::span<const std::byte> bytes, std::string_view path) {
  std::string shown = printable(path);
  if (shown.size() > kLongestPath) shown = "..." + shown.substr(shown.size() - kLongestPath + 3);
  for (std::size_t i = 0; i < mapped_ranges.size(); ++i) {
    RangeEntry& entry = mapped_ranges[i];
    bool expected = false;
    if (!entry.taken.compare_exchange_strong(expected, true)) continue;
    std::memcpy(entry.path, shown.c_str(), shown.size() + 1);
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    entry.end = begin + bytes.size();
    entry.begin = begin;
    entry_ = static_cast<int>(i);
    return;
  }
}

MappedRange::~MappedRange() {
  if (entry_ < 0) return;
  RangeEntry& entry = mapped_ranges[static_cast<std::size_t>(entry_)];
  entry.begin = 0;
  entry.taken = false;
}

const char* mapped_path_of(const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const RangeEntry& entry : mapped_ranges) {
    const std::uintptr_t begin = entry.begin;
    // The last page reaches beyond the last byte.
    constexpr std::uintptr_t kPage = 4096;
    if (begin != 0 && begin <= at && at / kPage <= (entry.end - 1) / kPage) return entry.path;
  }
  return nullptr;
}

}  // namespace tandem
