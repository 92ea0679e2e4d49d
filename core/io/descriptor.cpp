#include "core/io/descriptor.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace tandem {

bool is_still_at(const Descriptor& file, const std::filesystem::path& path) {
  struct stat opened {
  }, found{};
  return ::fstat(file.get(), &opened) == 0 && ::lstat(path.c_str(), &found) == 0 &&
         opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

std::string reason(int error) { return std::generic_category().message(error); }

int write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

int sync_and_close(Descriptor& descriptor) {
  int error = ::fsync(descriptor.get()) != 0 ? errno : 0;
  if (descriptor.close() != 0 && error == 0) error = errno;
  return error;
}

void sync_directory(const std::filesystem::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.is_open()) ::fsync(descriptor.get());
}

}  // namespace tandem
