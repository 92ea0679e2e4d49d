#include <cstdio>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/io/gguf.hpp"
#include "core/q4_quantizer.hpp"

namespace {

/// The values of Q4_0 by way of raw-q4, as projections have them.
std::vector<float> repacked_values(const tandem::GgufFile& file, const std::string& name,
                                   const tandem::Shape& shape, std::int64_t blocks) {
  std::vector<std::uint8_t> q4(
      static_cast<std::size_t>(tandem::storage_bytes(tandem::DType::q4, shape.elements())));
  tandem::repack_q4_0(file.data(name).data(), blocks, 0, blocks, q4.data());
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  const tandem::ConstTensor matrix(q4.data(), tandem::DType::q4, shape);
  for (std::int64_t row = 0; row < shape[0]; ++row)
    tandem::dequantize_q4_row(matrix, row, values.data() + row * shape[1]);
  return values;
}

}  // namespace

/// Writes the values of every tensor of a GGUF file as f32, in the order of their names, to standard output:
/// what gguf_test.py compares with the Python package. With --repack, matrices in Q4_0 go through raw-q4.
int main(int argc, char** argv) {
  const bool repack = argc == 3 && std::string_view(argv[2]) == "--repack";
  if (argc != 2 && !repack) {
    std::fputs("usage: dequantise FILE.gguf [--repack]\n", stderr);
    return 2;
  }
  try {
    const tandem::GgufFile file(argv[1]);
    for (const auto& [name, info] : file.tensors()) {
      const tandem::GgmlType& type = file.readable_type(name);
      const std::int64_t blocks = info.bytes / type.block_bytes;
      std::vector<float> values(static_cast<std::size_t>(blocks * type.block_elements));
      if (repack && type.name == "Q4_0") {
        values = repacked_values(file, name, tandem::Shape::from(info.dims), blocks);
      } else {
        tandem::dequantize_blocks(type, file.data(name).data(), 0, blocks, values.data());
      }
      if (std::fwrite(values.data(), sizeof(float), values.size(), stdout) != values.size()) return 1;
    }
  } catch (const tandem::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
