#pragma once

#include <filesystem>

namespace tandem {

/// A temporary file or directory of this process, remembered for as long as this object lives, so that a
/// process that must end at once can remove it. Removes nothing itself. Thread-safe.
class OwnFile {
 public:
  OwnFile() = default;
  explicit OwnFile(const std::filesystem::path& path);
  ~OwnFile();
  OwnFile(OwnFile&& other) noexcept;
  OwnFile& operator=(OwnFile&& other) noexcept;

 private:
  int entry_ = -1;  ///< of the table; -1: none, also when the table was full
};

/// Removes all files that are remembered, and the remembered directories with the files in them. May be
/// called by a signal handler: it takes no lock and no memory.
void remove_own_files() noexcept;

}  // namespace tandem
