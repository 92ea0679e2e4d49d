#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "core/io/descriptor.hpp"
#include "core/io/mapped_ranges.hpp"

namespace tandem {

/// What tells, without reading it, that a file was written to.
struct FileStamp {
  std::uint64_t device = 0, inode = 0;
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;  ///< of the content
  std::int64_t changed_ns = 0;   ///< of content, name, owner or mode
  std::uint64_t links = 0, mode = 0, owner = 0;
};

/// All bytes of a regular file, mapped read-only. Pages are read when they are touched and belong to the page
/// cache: mapping a large model costs nothing until it is used, and several processes share it.
///
/// Immutable and safe to use from several threads. The file must not be written to while it is mapped: its
/// new bytes would be read, and where it became shorter the operating system answers a touch of a vanished
/// page with SIGBUS, not with an error (sudden_end.hpp). Replacing it by rename is harmless.
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

  /// Throws Error(corrupt) when the file was written to since it was opened, as size, time stamps and, where
  /// they are watched (below), checksums tell.
  void require_unchanged() const;

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes, Descriptor file);
  bool unchanged() const;

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  Descriptor file_;
  FileStamp stamp_;
  std::string checksum_;  ///< empty: none was wanted
  MappedRange range_;
};

/// How a process watches the files that it maps.
enum class MappedWatch {
  none,       ///< not at all
  stamps,     ///< by size and time stamps
  checksums,  ///< by checksums of all bytes, too: files are read once more when they are opened
};

/// For programs, to be called at the start: from now on require_mapped_files_unchanged() knows the files that
/// were mapped, those that are closed by then, too, and nothing is published (NewFile, NewDirectory) from
/// files that have changed. Watches more than before, or as much.
void watch_mapped_files(MappedWatch watch);

/// Throws Error(corrupt) when a file was written to while it was mapped and watched.
void require_mapped_files_unchanged();

/// The content of a regular file of at most `max_bytes`; it may be empty. Throws not_found, invalid_argument
/// (no regular file, or a longer one) and io.
std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes);

/// Makes `path` a file with these bytes, replacing what was there (a symbolic link itself, not its target).
/// Whoever opens `path` meanwhile, or after a crash, finds the old content or the new, never a part. Throws
/// io, and then `path` is what it was and no temporary file is left behind.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace tandem
