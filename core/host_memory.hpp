#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "core/backend.hpp"

namespace tandem {

/// Bytes of host memory that this process could still take without swapping: MemAvailable of /proc/meminfo,
/// or less where a cgroup (version 2) of the process, or one above it, leaves less. A cgroup leaves its
/// memory.max, less what it uses, not counting file pages that the kernel would drop first (inactive_file).
/// The largest number where none of this can be read. `root` stands before the paths, for tests.
std::uint64_t available_host_bytes(const std::filesystem::path& root = "/");

/// Host memory aligned to 64 bytes, its contents undefined. Throws Error(out_of_memory), naming `who` and the
/// size, when the system refuses or plainly has less.
Buffer allocate_host(std::string_view who, std::size_t bytes);

}  // namespace tandem
