#include "core/io/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "core/checksum.hpp"
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

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

FileStamp stamp_of(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .bytes = status.st_size,
          .modified_ns = nanoseconds(status.st_mtim),
          .changed_ns = nanoseconds(status.st_ctim),
          .links = status.st_nlink,
          .mode = status.st_mode,
          .owner = status.st_uid};
}

FileStamp stamp_of(const Descriptor& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 ? stamp_of(status) : FileStamp();
}

bool same_file(const FileStamp& a, const FileStamp& b) { return a.device == b.device && a.inode == b.inode; }

/// Another name, owner or mode moves the time of a change, too, and is harmless: only where the file still
/// has its name and these are as before does that time speak of the content (whose own can be set back).
bool same_content(const FileStamp& before, const FileStamp& now, const fs::path& path) {
  if (before.bytes != now.bytes || before.modified_ns != now.modified_ns) return false;
  if (before.changed_ns == now.changed_ns || before.links != now.links || before.mode != now.mode ||
      before.owner != now.owner) {
    return true;
  }
  struct stat named {};
  return ::stat(path.c_str(), &named) != 0 || !same_file(stamp_of(named), before);
}

/// What the process has mapped, and what was changed by the time it was closed.
struct Watched {
  std::atomic<MappedWatch> watch{MappedWatch::none};
  std::mutex lock;
  std::set<const MappedFile*> open;
  std::vector<fs::path> changed;
};

/// Never destroyed, as files may be closed after it would be.
Watched& watched() {
  static auto* const known = new Watched;
  return *known;
}

[[noreturn]] void refuse_changed(const fs::path& path) {
  fail(
      ErrorCode::corrupt,
      "'{}' was written to while it was in use, so that results may come from the old bytes and the new: run "
      "it again, and replace files by rename",
      path.string());
}

}  // namespace

MappedFile::MappedFile(fs::path path, std::span<const std::byte> bytes, Descriptor file)
    : path_(std::move(path)),
      bytes_(bytes),
      file_(std::move(file)),
      stamp_(stamp_of(file_)),
      range_(bytes, path_.native()) {
  Watched& all = watched();
  if (all.watch == MappedWatch::checksums) checksum_ = to_string(checksum(bytes_));
  const std::scoped_lock locked(all.lock);
  all.open.insert(this);
}

MappedFile::~MappedFile() {
  Watched& all = watched();
  const bool keep = all.watch != MappedWatch::none && !unchanged();
  {
    const std::scoped_lock locked(all.lock);
    all.open.erase(this);
    if (keep) all.changed.push_back(path_);
  }
  // munmap takes a pointer to mutable memory, although it only forgets it.
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::shared_ptr<const MappedFile> MappedFile::open(const fs::path& path) {
  RegularFile file = open_regular(path);
  if (file.bytes == 0) fail(ErrorCode::corrupt, "'{}' is empty, expected data", path.string());
  const auto size = static_cast<std::size_t>(file.bytes);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (memory == MAP_FAILED) {
    fail(ErrorCode::io, "cannot map the {} bytes of '{}': {}", file.bytes, path.string(), reason(errno));
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, {static_cast<const std::byte*>(memory), size}, std::move(file.descriptor)));
}

bool MappedFile::unchanged() const {
  if (!same_content(stamp_, stamp_of(file_), path_)) return false;
  return checksum_.empty() || checksum_ == to_string(checksum(bytes_));
}

void MappedFile::require_unchanged() const {
  if (!unchanged()) refuse_changed(path_);
}

void watch_mapped_files(MappedWatch watch) {
  Watched& all = watched();
  all.watch = std::max(all.watch.load(), watch);
}

void require_mapped_files_unchanged() {
  Watched& all = watched();
  if (all.watch == MappedWatch::none) return;
  const std::scoped_lock locked(all.lock);
  if (!all.changed.empty()) refuse_changed(all.changed.front());
  for (const MappedFile* file : all.open) file->require_unchanged();
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
