#include <numeric>

#include "core/io/mapped_file.hpp"
#include "core/io/model_config.hpp"
#include "core/io/safetensors.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/gguf/use_gguf.hpp"
#include "tests/io/io_test_support.hpp"

namespace tandem::fuzz {
namespace {

void read_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  for (const std::string& name : file.names()) {
    test::reporting(
        [&] {
          const HostTensor tensor = file.tensor(name);
          const auto* bytes = static_cast<const std::uint8_t*>(tensor.view.data);
          // Volatile, so that every byte is read.
          volatile unsigned sum = std::accumulate(bytes, bytes + tensor.view.bytes(), 0u);
          static_cast<void>(sum);
        },
        add_outcome);
  }
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[1,4],"data_offsets":[24,32]},)"
      R"("c":{"dtype":"I64","shape":[0],"data_offsets":[32,32]}})";
  return {test::safetensors_bytes(header, std::string(32, 'd')),
          read_text_file(test::data_folder("TANDEM_MODELS") / "tiny" / "config.json", 1 << 20)};
}

}  // namespace tandem::fuzz

/// A safetensors file, or a config.json if it begins as one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fuzz = tandem::fuzz;
  fuzz::begin_outcome();
  if (size > 0 && data[0] == '{') {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    tandem::test::reporting([&] { tandem::parse_model_config(text, "config.json"); }, fuzz::add_outcome);
    return 0;
  }
  const fuzz::MemoryFile file(data, size);
  tandem::test::reporting([&] { fuzz::read_safetensors(file.path()); }, fuzz::add_outcome);
  return 0;
}
