#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace tandem {

/// An open file, closed at the end of its scope. Negative: none is open.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  /// A delayed write error may be reported by close alone, so a writer has to look at its result.
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_ = -1;
};

/// Whether this path, not followed if it is a symbolic link, still names the open file.
bool is_still_at(const Descriptor& file, const std::filesystem::path& path);

/// What the system calls an errno.
std::string reason(int error);

/// Writes all bytes. Returns 0 or the error number.
int write_all(int fd, std::span<const std::byte> bytes);

/// Waits until the content is on the disk and closes. Returns 0 or the error number of whatever failed first.
int sync_and_close(Descriptor& descriptor);

/// Makes finished renames and new files in a folder survive a power failure. Some file systems refuse to sync
/// a directory; the content is whole either way, so that is no failure.
void sync_directory(const std::filesystem::path& folder);

}  // namespace tandem
