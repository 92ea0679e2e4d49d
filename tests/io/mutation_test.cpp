#include <numeric>

#include "core/io/mapped_file.hpp"
#include "core/io/model_config.hpp"
#include "core/io/safetensors.hpp"
#include "core/random.hpp"
#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

constexpr int kMutations = 2000;

/// One or two bytes changed, one in eight times cut off somewhere as well; a pure function of `number`.
std::string mutate(std::string bytes, std::uint64_t number, std::size_t first, std::size_t last) {
  const CounterRandom random("mutation", number);
  std::uint64_t i = 0;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random.bits(i++) % n); };
  // Bytes that mean something to a parser find more than arbitrary ones.
  constexpr std::string_view kTelling = "0123456789[]{}\",:-.e \\";
  for (std::size_t changes = 1 + below(2); changes > 0; --changes) {
    char& byte = bytes[first + below(last - first)];
    byte = below(2) == 0 ? kTelling[below(kTelling.size())] : static_cast<char>(below(256));
  }
  if (below(8) == 0) bytes.resize(below(bytes.size()));
  return bytes;
}

struct Outcomes {
  int accepted = 0;
  int refused = 0;
};

/// Runs `use` on every mutation; anything but success or an Error ends the test.
template <class Use>
Outcomes try_mutations(const std::string& original, std::size_t first, std::size_t last, Use use) {
  Outcomes outcomes;
  for (int n = 0; n < kMutations; ++n) {
    SCOPED_TRACE(fmt::format("mutation {}", n));
    try {
      use(mutate(original, static_cast<std::uint64_t>(n), first, last));
      ++outcomes.accepted;
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
      ++outcomes.refused;
    }
  }
  return outcomes;
}

/// Touches every byte that a tensor claims to have.
unsigned sum_of_bytes(const HostTensor& tensor) {
  const auto* bytes = static_cast<const unsigned char*>(tensor.view.data);
  return std::accumulate(bytes, bytes + tensor.view.bytes(), 0u);
}

TEST(Mutation, SafetensorsHeaderIsReadOrRefused) {
  const std::string header =
      R"({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},)"
      R"( "b": {"dtype": "BF16", "shape": [1, 4], "data_offsets": [24, 32]},)"
      R"( "c": {"dtype": "I64", "shape": [0], "data_offsets": [32, 32]}})";
  const std::string original = test::safetensors_bytes(header, std::string(32, 'd'));
  const test::TempDir dir;
  unsigned sum = 0;
  const Outcomes outcomes = try_mutations(original, 0, 8 + header.size(), [&](const std::string& bytes) {
    const auto path = dir.write("m.safetensors", bytes);
    const SafetensorsFile file(path);
    std::filesystem::remove(path);  // rewriting a file in place waits for the disk on some file systems
    for (const std::string& name : file.names()) {
      try {
        sum += sum_of_bytes(file.tensor(name));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
      }
    }
  });
  EXPECT_GT(outcomes.accepted, 50);
  EXPECT_GT(outcomes.refused, 1000);
  EXPECT_NE(sum, 0u);
}

TEST(Mutation, ConfigIsConsistentOrRefused) {
  const auto path = test::data_folder("TANDEM_MODELS") / "tiny" / "config.json";
  const std::string original = read_text_file(path, 1 << 20);
  const Outcomes outcomes = try_mutations(original, 0, original.size(), [](const std::string& text) {
    const ModelConfig config = parse_model_config(text, "config.json");
    EXPECT_EQ(config.layer_types.size(), static_cast<std::size_t>(config.num_hidden_layers));
    EXPECT_EQ(config.linear_num_value_heads % config.linear_num_key_heads, 0);
    EXPECT_EQ(config.num_attention_heads % config.num_key_value_heads, 0);
    EXPECT_EQ(config.rotary_dim % 2, 0);
    EXPECT_LE(config.rotary_dim, config.head_dim);
    EXPECT_GT(config.conv_dim(), 0);
  });
  EXPECT_GT(outcomes.accepted, 100);
  EXPECT_GT(outcomes.refused, 1000);
}

}  // namespace
}  // namespace tandem
