#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace tandem {

/// All bytes of a regular file, mapped read-only. Pages are read when they are touched and belong to the page
/// cache: mapping a large model costs nothing until it is used, and several processes share it.
///
/// Immutable and safe to use from several threads. The file must not be made shorter while it is mapped: the
/// operating system answers a touch of a vanished page with SIGBUS, not with an error. Replacing it by rename
/// is harmless.
class MappedFile {
 public:
  /// Maps `path`. Throws not_found if nothing is there, invalid_argument for anything but a regular file (a
  /// directory, a pipe), corrupt for an empty file, and io if the operating system refuses.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// At least one byte, starting at a page boundary; valid as long as this object lives.
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes);

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

/// The content of a regular file of at most `max_bytes`; it may be empty. Throws not_found, invalid_argument
/// (no regular file, or a longer one) and io.
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);

/// Makes `path` a file with these bytes, replacing what was there (a symbolic link itself, not its target).
/// Whoever opens `path` meanwhile, or after a crash, finds the old content or the new, never a part. Throws
/// io, and then `path` is what it was and no temporary file is left behind.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace tandem
