#include <cstdio>
#include <vector>

#include "core/error.hpp"
#include "core/io/gguf.hpp"

/// Writes the values of every tensor of a GGUF file as f32, in the order of their names, to standard output:
/// what gguf_test.py compares with the Python package.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: dequantise FILE.gguf\n", stderr);
    return 2;
  }
  try {
    const tandem::GgufFile file(argv[1]);
    for (const auto& [name, info] : file.tensors()) {
      const tandem::GgmlType& type = file.readable_type(name);
      const std::int64_t blocks = info.bytes / type.block_bytes;
      std::vector<float> values(static_cast<std::size_t>(blocks * type.block_elements));
      tandem::dequantize_blocks(type, file.data(name).data(), 0, blocks, values.data());
      if (std::fwrite(values.data(), sizeof(float), values.size(), stdout) != values.size()) return 1;
    }
  } catch (const tandem::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
