#include <fstream>

#include "core/io/checkpoint_writer.hpp"
#include "core/io/mapped_file.hpp"
#include "graph/model/packed_files.hpp"
#include "graph/model/qwen35.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/gguf/tiny_gguf.hpp"
#include "tests/gguf/use_gguf.hpp"
#include "tests/io/io_test_support.hpp"

namespace tandem::fuzz {
namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kConfig = "config.json";
constexpr std::int64_t kMostBytes = 16 << 20;

void write(const std::filesystem::path& path, std::string_view bytes) {
  // A new file: the old one may still be mapped.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A small model in 4 bits as `tandem quantize` writes it; one of its files is exchanged for each input.
class PackedDirectory {
 public:
  PackedDirectory() : path_(folder_.path() / "model") {
    const Gears gears = Gears::parse("q4,mlp=q4q8,layer.3=bf16");
    const ModelConfig config = test::small_model()->config();
    PackSource source{config, build_model_graph(config, gears_of(gears, published_gear)), {}, {}, {}, {}};
    source.name = [](const Weight& weight) { return "model." + weight.name; };
    source.data = [config](const Weight& weight) { return WeightData(synthetic_weight({}, config, weight)); };
    source.bytes = [](const Weight& weight) { return weight.shape.elements() * 2; };
    source.write_config = [config](const std::filesystem::path& to) {
      write_model_config(to, config, DType::bf16);
    };
    Threads threads(1);
    write_packed_model(source, gears, path_, threads);
    weights_ = read_text_file(path_ / kWeights, kMostBytes);
    config_ = read_text_file(path_ / kConfig, kMostBytes);
  }

  const std::string& weights() const { return weights_; }
  const std::string& config() const { return config_; }

  void open_with(std::string_view input) const {
    const bool is_config = input.starts_with('{');
    write(path_ / (is_config ? kConfig : kWeights), input);
    test::reporting([&] { Model::open(path_); }, add_outcome);
    test::reporting([&] { Model::open(path_, Gears::parse("q4q8")); }, add_outcome);
    write(path_ / (is_config ? kConfig : kWeights), is_config ? config_ : weights_);
  }

 private:
  test::TempDir folder_;
  std::filesystem::path path_;
  std::string weights_, config_;
};

const PackedDirectory& directory() {
  static const PackedDirectory made;
  return made;
}

}  // namespace

std::vector<std::string> seeds() { return {directory().weights(), directory().config()}; }

}  // namespace tandem::fuzz

/// The weights of a directory in 4 bits, or its config.json if the input begins as one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tandem::fuzz::begin_outcome();
  tandem::fuzz::directory().open_with({reinterpret_cast<const char*>(data), size});
  return 0;
}
