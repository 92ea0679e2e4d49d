#include "tests/fuzz/fuzz_target.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "tests/gguf/use_gguf.hpp"

namespace tandem::fuzz {
namespace {

std::string outcome;

}  // namespace

const std::string& last_outcome() { return outcome; }

void begin_outcome() { outcome.clear(); }

void add_outcome(const Error& error) {
  if (!test::is_named_file_error(error)) {
    std::fprintf(stderr, "not an error of a file, or not one line: %s\n", error.what());
    std::abort();
  }
  outcome += error.what();
  outcome += '\n';
}

MemoryFile::MemoryFile(const std::uint8_t* data, std::size_t size)
    : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
  if (descriptor_ < 0 || ::write(descriptor_, data, size) != static_cast<ssize_t>(size)) {
    throw std::runtime_error("cannot make a file in memory");
  }
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

}  // namespace tandem::fuzz
