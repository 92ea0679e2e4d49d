#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/io/new_file.hpp"

namespace tandem::tools {

/// A text file that is written while something runs and appears when it is complete (core/io/new_file.hpp).
/// Not thread-safe. Everything throws Error(io).
class NewText {
 public:
  explicit NewText(const std::filesystem::path& path) : file_(path) {}

  void write(std::string_view text);
  /// To be called once, last.
  void publish();

 private:
  void flush();

  NewFile file_;
  std::string pending_;
};

}  // namespace tandem::tools
