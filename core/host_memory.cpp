#include "core/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <new>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// Below this an allocation is not worth reading /proc for.
constexpr std::size_t kAskFromBytes = std::size_t{16} << 20;
constexpr std::align_val_t kAlignment{64};

/// The number after `key` in a file of lines "key number ...".
std::optional<std::uint64_t> number_after(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    std::uint64_t value = 0;
    if (word == key && in >> value) return value;
    in.clear();
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

/// The number that a file consists of; nothing for "max" or a file that is not there.
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

std::uint64_t left_in_cgroup(const fs::path& group) {
  const auto limit = number_in(group / "memory.max");
  if (!limit) return kUnlimited;
  const std::uint64_t used = number_in(group / "memory.current").value_or(0);
  const std::uint64_t droppable = number_after(group / "memory.stat", "inactive_file").value_or(0);
  const std::uint64_t held = used - std::min(used, droppable);
  return *limit - std::min(*limit, held);
}

/// The path of the process in the cgroup hierarchy: the line "0::/a/b" of version 2, as "a/b".
fs::path own_cgroup(const fs::path& root) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return {};
}

}  // namespace

std::uint64_t available_host_bytes(const fs::path& root) {
  const auto kilobytes = number_after(root / "proc/meminfo", "MemAvailable:");
  std::uint64_t available = kilobytes ? *kilobytes * 1024 : kUnlimited;
  const fs::path hierarchy = root / "sys/fs/cgroup";
  fs::path group = own_cgroup(root);
  for (; !group.empty(); group = group.parent_path()) {
    available = std::min(available, left_in_cgroup(hierarchy / group));
  }
  return std::min(available, left_in_cgroup(hierarchy));
}

Buffer allocate_host(std::string_view who, std::size_t bytes) {
  void* data = nullptr;
  // Linux grants addresses for memory that it does not have and kills the process when it is touched: ask
  // first.
  if (bytes < kAskFromBytes || bytes <= available_host_bytes())
    data = ::operator new(bytes, kAlignment, std::nothrow);
  if (data == nullptr) {
    fail(ErrorCode::out_of_memory, "{}: cannot allocate {} ({} bytes) of host memory: {} left", who,
         human_bytes(bytes), bytes, human_bytes(available_host_bytes()));
  }
  return {data, bytes, [](void* p) { ::operator delete(p, kAlignment); }};
}

}  // namespace tandem
