#include "core/io/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/error.hpp"
#include "core/io/descriptor.hpp"
#include "core/io/new_file.hpp"

namespace tandem {

namespace {

namespace fs = std::filesystem;

struct RegularFile {
  Descriptor descriptor;
  std::uint64_t bytes;
};

RegularFile open_regular(const fs::path& path) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer before it could be refused.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.is_open()) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) fail(ErrorCode::not_found, "no such file '{}'", path.string());
    fail(ErrorCode::io, "cannot open '{}': {}", path.string(), reason(error));
  }
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) {
    fail(ErrorCode::io, "cannot examine '{}': {}", path.string(), reason(errno));
  }
  if (S_ISDIR(status.st_mode)) {
    fail(ErrorCode::invalid_argument, "'{}' is a directory, expected a file", path.string());
  }
  if (!S_ISREG(status.st_mode)) {
    fail(ErrorCode::invalid_argument, "'{}' is not a regular file, expected one", path.string());
  }
  return {std::move(descriptor), static_cast<std::uint64_t>(status.st_size)};
}

}  // namespace

MappedFile::MappedFile(fs::path path, std::span<const std::byte> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

MappedFile::~MappedFile() {
  // munmap takes a pointer to mutable memory, although it only forgets it.
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::shared_ptr<const MappedFile> MappedFile::open(const fs::path& path) {
  const RegularFile file = open_regular(path);
  if (file.bytes == 0) fail(ErrorCode::corrupt, "'{}' is empty, expected data", path.string());
  const auto size = static_cast<std::size_t>(file.bytes);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (memory == MAP_FAILED) {
    fail(ErrorCode::io, "cannot map the {} bytes of '{}': {}", file.bytes, path.string(), reason(errno));
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, {static_cast<const std::byte*>(memory), size}));
}

std::string read_text_file(const fs::path& path, std::int64_t max_bytes) {
  const RegularFile file = open_regular(path);
  if (file.bytes > static_cast<std::uint64_t>(std::max<std::int64_t>(max_bytes, 0))) {
    fail(ErrorCode::invalid_argument, "'{}' has {} bytes, expected at most {}", path.string(), file.bytes,
         max_bytes);
  }
  std::string text(static_cast<std::size_t>(file.bytes), '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t count = ::read(file.descriptor.get(), text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(ErrorCode::io, "cannot read '{}': {}", path.string(), reason(errno));
    if (count == 0) fail(ErrorCode::io, "'{}' became shorter while it was read", path.string());
    filled += static_cast<std::size_t>(count);
  }
  return text;
}

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  NewFile file(path);
  file.write(bytes);
  file.publish();
}

}  // namespace tandem
