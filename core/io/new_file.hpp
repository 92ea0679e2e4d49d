#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

#include "core/io/descriptor.hpp"
#include "core/io/own_files.hpp"

namespace tandem {

/// A file that appears whole or not at all: written front to back under a hidden name beside its target,
/// which publish() renames. Whoever opens the target meanwhile, or after a crash, finds the old content or
/// the new, never a part. What a killed process left beside it is removed by the next NewFile in that folder:
/// files of this user that have a name which only NewFile makes, and that nobody has locked.
///
/// A device, a pipe, and whatever is in /dev or /proc (is_stream) is never replaced: what is written goes
/// into it at once, and publish() only closes it. Not thread-safe.
class NewFile {
 public:
  /// Makes the hidden file, or opens the stream (a pipe waits for its reader). Throws Error(io) when the
  /// system refuses or the target is a directory, a socket or a disk.
  explicit NewFile(const std::filesystem::path& target);
  /// Removes what was written, unless it was published.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Throws Error(io).
  void write(std::span<const std::byte> bytes);

  /// Asks require_mapped_files_unchanged(), waits until the content is on the disk, then takes the target's
  /// place (that of a symbolic link itself, if it is one). To be called once, last. Throws Error(io), and
  /// then the target is what it was; what `before_rename` throws, too. That is for tests, which want to see a
  /// process die there.
  void publish(const std::function<void()>& before_rename = {});

  /// Whether what is at the path can only be written into.
  static bool is_stream(const std::filesystem::path& path);

  /// Throws, as the constructor would, when no file can be written there; leaves nothing, and waits for
  /// nobody.
  static void require_possible(const std::filesystem::path& target);

 private:
  Descriptor open_stream() const;
  Descriptor create(const std::filesystem::path& folder);
  [[noreturn]] void refuse(const char* action, int error) const;

  std::filesystem::path target_;
  bool stream_ = false;
  std::filesystem::path hidden_;  ///< empty when there is none
  OwnFile remembered_;            ///< the hidden file
  Descriptor descriptor_;
  Descriptor lock_;  ///< the same file: locked until it has its name, or the process is gone
};

}  // namespace tandem
