#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tandem {

/// Memory that is a file's, remembered in a fixed table for as long as this object lives, so that a signal
/// handler can say which file an address belongs to. Thread-safe.
class MappedRange {
 public:
  MappedRange(std::span<const std::byte> bytes, std::string_view path);
  ~MappedRange();
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

 private:
  int entry_ = -1;  ///< of the table; -1 when it was full
};

/// The printable path of the file that is mapped there, its end if it is very long; null for other addresses.
/// May be called by a signal handler.
const char* mapped_path_of(const void* address) noexcept;

}  // namespace tandem
