#include <cstdlib>

#include "tests/fuzz/fuzz_target.hpp"

/// A target with a planted fault, which shows that the driver finds one: it dies of a '#' among the first
/// bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tandem::fuzz::begin_outcome();
  for (std::size_t i = 0; i < size && i < 4; ++i) {
    if (data[i] == '#') std::abort();
  }
  return 0;
}

namespace tandem::fuzz {

std::vector<std::string> seeds() { return {"harmless"}; }

}  // namespace tandem::fuzz
