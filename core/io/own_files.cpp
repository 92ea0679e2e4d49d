#include "core/io/own_files.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace tandem {
namespace {

enum State : int { kFree, kTaken, kReady };

struct FileEntry {
  std::atomic<int> state{kFree};
  char path[PATH_MAX];
};

/// More than are ever written at a time. A fixed place, because a signal handler reads it.
std::array<FileEntry, 32> own_files;

/// The kernel's record of a name in a directory; readdir may take memory, which a signal handler must not.
struct Name {
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short bytes;
  unsigned char type;
  char name[1];
};

void remove_files_in(const char* path) {
  const int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  alignas(Name) char buffer[4096];
  for (;;) {
    const long filled = ::syscall(SYS_getdents64, folder, buffer, sizeof buffer);
    if (filled <= 0) break;
    for (long at = 0; at < filled;) {
      const auto* found = reinterpret_cast<const Name*>(buffer + at);
      ::unlinkat(folder, found->name, 0);  // "." and ".." are refused
      at += found->bytes;
    }
  }
  ::close(folder);
}

}  // namespace

OwnFile::OwnFile(const std::filesystem::path& path) {
  const std::string& text = path.native();
  if (text.size() >= PATH_MAX) return;
  for (std::size_t i = 0; i < own_files.size(); ++i) {
    int expected = kFree;
    if (!own_files[i].state.compare_exchange_strong(expected, kTaken)) continue;
    std::memcpy(own_files[i].path, text.c_str(), text.size() + 1);
    own_files[i].state = kReady;
    entry_ = static_cast<int>(i);
    return;
  }
}

OwnFile::~OwnFile() {
  if (entry_ >= 0) own_files[static_cast<std::size_t>(entry_)].state = kFree;
}

OwnFile::OwnFile(OwnFile&& other) noexcept : entry_(std::exchange(other.entry_, -1)) {}

OwnFile& OwnFile::operator=(OwnFile&& other) noexcept {
  std::swap(entry_, other.entry_);
  return *this;
}

void remove_own_files() noexcept {
  for (FileEntry& entry : own_files) {
    if (entry.state != kReady) continue;
    if (::unlink(entry.path) == 0) continue;
    remove_files_in(entry.path);
    ::rmdir(entry.path);
  }
}

}  // namespace tandem
