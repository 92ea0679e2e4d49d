#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

#include "core/io/descriptor.hpp"

namespace tandem {

/// A file that appears whole or not at all: written front to back under a hidden name beside its target,
/// which publish() renames. Whoever opens the target meanwhile, or after a crash, finds the old content or
/// the new, never a part. What a killed process left beside it is removed by the next NewFile in that folder.
/// Not thread-safe.
class NewFile {
 public:
  /// Makes the hidden file. Throws Error(io) when the system refuses.
  explicit NewFile(const std::filesystem::path& target);
  /// Removes what was written, unless it was published.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Throws Error(io).
  void write(std::span<const std::byte> bytes);

  /// Waits until the content is on the disk, then takes the target's place (that of a symbolic link itself,
  /// if it is one). To be called once, last. Throws Error(io), and then the target is what it was; what
  /// `before_rename` throws, too. That is for tests, which want to see a process die there.
  void publish(const std::function<void()>& before_rename = {});

 private:
  Descriptor create(const std::filesystem::path& folder);
  [[noreturn]] void refuse(const char* action, int error) const;

  std::filesystem::path target_;
  std::filesystem::path hidden_;  ///< empty when there is none
  Descriptor descriptor_;
  Descriptor lock_;  ///< the same file: locked until it has its name, or the process is gone
};

}  // namespace tandem
