#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"

/// What a fuzz target shares with its driver. A target is a source that defines the function which libFuzzer
/// and its like call, and what our own driver wants beside it.

/// Reads an input. Returns 0; anything that must not happen ends the process.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace tandem::fuzz {

/// Whole files to begin with.
std::vector<std::string> seeds();

/// What the last input came to: "" or messages. Inputs with a message of a new kind are kept for more
/// mutations.
const std::string& last_outcome();
/// For targets: begins a new outcome, adds an error to it. An error that says nothing of a file, or is not
/// one line, ends the process.
void begin_outcome();
void add_outcome(const Error& error);

/// A file of these bytes that is nowhere on a disk, and its path while it lives.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace tandem::fuzz
