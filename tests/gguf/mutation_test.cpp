#include <map>

#include "core/random.hpp"
#include "tests/gguf/tiny_gguf.hpp"
#include "tests/gguf/use_gguf.hpp"
#include "tests/io/io_test_support.hpp"
#include "tests/share.hpp"

namespace tandem {
namespace {

constexpr int kMutations = 1000;

/// One or two changes in the header: a byte, a bit, or a number of eight bytes; one in eight times the file
/// is cut off as well. A pure function of `number`.
std::string mutated(std::string bytes, std::uint64_t number, std::size_t header) {
  const CounterRandom random("gguf mutation", number);
  std::uint64_t i = 0;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random.bits(i++) % n); };
  constexpr std::uint64_t kTelling[] = {
      0, 1, 2, 32, 255, 65536, 1u << 31, ~0u, std::uint64_t{1} << 62, ~std::uint64_t{0}};
  for (std::size_t changes = 1 + below(2); changes > 0; --changes) {
    const std::size_t at = below(header - 8);
    if (below(2) == 0) {
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
    } else if (below(2) == 0) {
      bytes[at] = static_cast<char>(below(256));
    } else {
      bytes.replace(at, 8, test::raw(kTelling[below(std::size(kTelling))]));
    }
  }
  if (below(8) == 0) bytes.resize(1 + below(bytes.size() - 1));
  return bytes;
}

TEST(GgufMutation, FilesAreReadOrRefusedByName) {
  const test::GgufWriter writer = test::small_gguf({.matrix_type = test::kGgmlQ4_0});
  const std::string original = writer.bytes();
  const test::TempDir dir;
  std::map<std::string_view, int> outcomes;
  const int count = test::share_of(kMutations);
  for (int n = 0; n < count; ++n) {
    SCOPED_TRACE(fmt::format("mutation {}", n));
    const auto path =
        dir.write("m.gguf", mutated(original, static_cast<std::uint64_t>(n), writer.header().size()));
    bool accepted = true;
    test::use_gguf(path, [&](const Error& error) {
      accepted = false;
      ++outcomes[name(error.code())];
      EXPECT_TRUE(test::is_named_file_error(error)) << name(error.code()) << ": " << error.what();
    });
    if (accepted) ++outcomes["accepted"];
  }
  EXPECT_GT(outcomes["accepted"], count / 100);
  EXPECT_GT(outcomes["corrupt"], count / 10);
  EXPECT_GT(outcomes["unsupported"] + outcomes["invalid_argument"], 0);
  EXPECT_GT(outcomes["mismatch"] + outcomes["not_found"], 0);
}

}  // namespace
}  // namespace tandem
