#pragma once

#include <filesystem>

#include "core/io/descriptor.hpp"
#include "core/io/own_files.hpp"

namespace tandem {

/// A directory that appears whole or not at all: everything is written to a hidden one beside it, which
/// publish() renames. What a killed process left behind is removed by the next one that makes the same
/// directory; it is known by the empty file `.tandem-unfinished` in it. Not thread-safe.
class NewDirectory {
 public:
  /// Makes the hidden directory. Throws Error(invalid_argument) when `target` is a file or not empty,
  /// Error(not_found) when the folder that it is to be in is not there, Error(io) when the system refuses or
  /// another process is making the same directory now, or where the hidden directory would be is one of
  /// somebody else's.
  explicit NewDirectory(const std::filesystem::path& target);
  /// Removes what was written, unless it was published.
  ~NewDirectory();
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  /// Where to write. Files must be synced by who writes them.
  const std::filesystem::path& path() const { return hidden_; }

  /// Throws Error(io) when the file system plainly has no room for a model of so many bytes of weights.
  void require_room(std::int64_t bytes) const;

  /// Asks require_mapped_files_unchanged(), then makes it appear under its own name, for good. Throws
  /// Error(io), and then it does not.
  void publish();

 private:
  void lock();
  void remove_leftovers() const;
  std::filesystem::path marker() const;

  std::filesystem::path target_;
  std::filesystem::path hidden_;
  OwnFile remembered_;  ///< the hidden directory
  Descriptor lock_;     ///< of the hidden directory: tells one in use from a leftover
  bool published_ = false;
};

}  // namespace tandem
