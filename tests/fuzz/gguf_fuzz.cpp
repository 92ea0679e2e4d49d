#include "tests/fuzz/fuzz_target.hpp"
#include "tests/gguf/tiny_gguf.hpp"
#include "tests/gguf/use_gguf.hpp"

/// A GGUF file: header, tokenizer, configuration, every weight.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tandem::fuzz::begin_outcome();
  const tandem::fuzz::MemoryFile file(data, size);
  tandem::test::use_gguf(file.path(), tandem::fuzz::add_outcome);
  return 0;
}

namespace tandem::fuzz {

std::vector<std::string> seeds() {
  return {test::small_gguf({.matrix_type = test::kGgmlQ4_0}).bytes(), test::small_gguf({}).bytes()};
}

}  // namespace tandem::fuzz
