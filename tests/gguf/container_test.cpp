#include "core/io/gguf.hpp"
#include "tests/gguf/gguf_writer.hpp"
#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

using test::GgufWriter;
using test::raw;
using test::raw_string;

GgufFile read(const std::string& bytes) {
  const test::TempDir dir;
  return GgufFile(dir.write("m.gguf", bytes));
}
GgufFile read(const GgufWriter& writer) { return read(writer.bytes()); }

void expect_refused(const std::string& bytes, std::initializer_list<const char*> words,
                    ErrorCode code = ErrorCode::corrupt) {
  test::expect_error([&] { read(bytes); }, code, words);
}
void expect_refused(const GgufWriter& writer, std::initializer_list<const char*> words,
                    ErrorCode code = ErrorCode::corrupt) {
  expect_refused(writer.bytes(), words, code);
}

GgufWriter usual() {
  GgufWriter writer;
  writer.string("general.architecture", "qwen35").u32("a.size", 7).f32("a.eps", 1e-6f);
  writer.boolean("a.yes", true).strings("a.words", {"one", "", "three"}).i32s("a.numbers", {-1, 2});
  writer.tensor("x", test::kGgmlF32, {2, 3}, std::string(24, 'x'));
  writer.tensor("y", test::kGgmlQ4_0, {1, 64}, std::string(36, 'y'));
  return writer;
}

TEST(GgufFile, GivesKeysOfEveryKind) {
  GgufWriter writer = usual();
  writer.key("u8", 0, raw(std::uint8_t{200})).key("i8", 1, raw(std::int8_t{-3}));
  writer.key("u16", 2, raw(std::uint16_t{65535})).key("i16", 3, raw(std::int16_t{-300}));
  writer.key("i32", 5, raw(std::int32_t{-70000})).key("u64", 10, raw(std::uint64_t{1} << 40));
  writer.key("i64", 11, raw(std::int64_t{-1} << 40)).key("f64", 12, raw(0.1));
  for (const std::uint32_t version : {2u, 3u}) {
    writer.version = version;
    const GgufFile file = read(writer);
    EXPECT_EQ(file.string("general.architecture"), "qwen35");
    EXPECT_EQ(file.integer("a.size"), 7);
    EXPECT_EQ(file.boolean("a.yes"), true);
    EXPECT_EQ(file.strings("a.words"), (std::vector<std::string_view>{"one", "", "three"}));
    EXPECT_EQ(file.integers("a.numbers"), (std::vector<std::int64_t>{-1, 2}));
    EXPECT_EQ(file.integer("u8"), 200);
    EXPECT_EQ(file.integer("i8"), -3);
    EXPECT_EQ(file.integer("u16"), 65535);
    EXPECT_EQ(file.integer("i16"), -300);
    EXPECT_EQ(file.integer("i32"), -70000);
    EXPECT_EQ(file.integer("u64"), std::int64_t{1} << 40);
    EXPECT_EQ(file.integer("i64"), std::int64_t{-1} << 40);
    EXPECT_EQ(file.number("f64"), 0.1);
    EXPECT_EQ(file.number("a.eps"), 1e-6) << "not the double nearest to the float";
    EXPECT_EQ(file.integer("absent"), std::nullopt);
  }
}

TEST(GgufFile, NamesAKeyOfAnotherType) {
  GgufWriter writer = usual();
  writer.key("big", 10, raw(~std::uint64_t{0}))
      .key("floats", 9, raw(std::uint32_t{6}) + raw(std::uint64_t{0}));
  const GgufFile file = read(writer);
  const auto refused = [&](auto action, std::initializer_list<const char*> words) {
    test::expect_error([&] { action(file); }, ErrorCode::invalid_argument, words);
  };
  refused([](const GgufFile& f) { f.integer("a.eps"); }, {"a.eps", "whole number", "1e-06"});
  refused([](const GgufFile& f) { f.integer("big"); }, {"big", "63 bits", "18446744073709551615"});
  refused([](const GgufFile& f) { f.number("a.size"); }, {"a.size", "floating-point", "7"});
  refused([](const GgufFile& f) { f.boolean("a.words"); }, {"a.words", "true or false", "array of 3 string"});
  refused([](const GgufFile& f) { f.string("a.yes"); }, {"a.yes", "a string", "true"});
  refused([](const GgufFile& f) { f.strings("a.numbers"); }, {"a.numbers", "array of strings"});
  refused([](const GgufFile& f) { f.integers("floats"); }, {"floats", "whole numbers", "array of 0 f32"});
}

TEST(GgufFile, GivesTensorsInPlace) {
  const GgufFile file = read(usual());
  EXPECT_EQ(file.info("x").dims, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.info("y").bytes, 36);
  EXPECT_EQ(file.readable_type("y").name, "Q4_0");
  const auto data = file.data("y");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(data.data()), data.size()), std::string(36, 'y'));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data.data()) % 8, 0u);
  test::expect_error([&] { file.info("z"); }, ErrorCode::not_found, {"m.gguf", "no tensor \"z\""});
}

TEST(GgufFile, NamesATypeWhenItsTensorIsAskedFor) {
  GgufWriter writer = usual();
  writer.tensor("new", 250, {4}, "abcd").tensor("q2", 10, {1, 256}, std::string(84, 'q'));
  const GgufFile file = read(writer);
  EXPECT_EQ(file.readable_type("x").name, "F32");
  test::expect_error([&] { file.readable_type("new"); }, ErrorCode::unsupported,
                     {"\"new\"", "number 250", "Q4_0"});
  test::expect_error([&] { file.data("new"); }, ErrorCode::unsupported, {"number 250"});
  test::expect_error([&] { file.readable_type("q2"); }, ErrorCode::unsupported, {"\"q2\"", "Q2_K", "Q6_K"});
  EXPECT_EQ(file.data("q2").size(), 84u);
}

TEST(GgufFile, IsKnownByItsMagic) {
  const test::TempDir dir;
  EXPECT_TRUE(GgufFile::is_gguf(dir.write("a", "GGUF")));
  EXPECT_FALSE(GgufFile::is_gguf(dir.write("b", "GGU")));
  EXPECT_FALSE(GgufFile::is_gguf(dir.path()));
  EXPECT_FALSE(GgufFile::is_gguf(dir.path() / "absent"));
}

TEST(GgufFile, RefusesWhatIsNoSuchFile) {
  expect_refused(std::string("GGUX") + usual().bytes().substr(4), {"GGUF"});
  expect_refused(std::string("GG"), {"truncated"});
  for (const std::uint32_t version : {0u, 1u, 4u}) {
    GgufWriter writer = usual();
    writer.version = version;
    expect_refused(writer, {"version", "2 or 3"}, ErrorCode::unsupported);
  }
  GgufWriter swapped = usual();
  swapped.version = 3u << 24;
  expect_refused(swapped, {"version 3", "big-endian"}, ErrorCode::unsupported);
}

TEST(GgufFile, RefusesAFileCutAnywhere) {
  const GgufWriter writer = usual();
  const std::string bytes = writer.bytes(), data = bytes.substr(0, bytes.size() - 28);
  EXPECT_EQ(read(data).tensors().size(), 2u) << "padding at the end is not needed";
  for (std::size_t size = 1; size < data.size(); ++size) expect_refused(data.substr(0, size), {"m.gguf"});
}

TEST(GgufFile, RefusesCountsThatNoFileCanHold) {
  for (const std::uint64_t count : {std::uint64_t{1} << 20, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    GgufWriter keys = usual(), tensors = usual(), strings = usual(), numbers = usual();
    keys.key_count = count;
    expect_refused(keys, {"keys", "truncated"});
    tensors.tensor_count = count;
    expect_refused(tensors, {"tensors", "truncated"});
    strings.key("many", 9, raw(std::uint32_t{8}) + raw(count));
    expect_refused(strings, {"\"many\"", "elements", "truncated"});
    numbers.key("many", 9, raw(std::uint32_t{12}) + raw(count));
    expect_refused(numbers, {"\"many\"", "elements"});
    GgufWriter text = usual();
    text.key("long", 8, raw(count));
    expect_refused(text, {"\"long\"", "bytes expected", "truncated"});
  }
}

TEST(GgufFile, RefusesBadKeys) {
  expect_refused(usual().u32("a.size", 8), {"\"a.size\"", "twice"});
  expect_refused(usual().u32("", 8), {"key of 0 bytes"});
  expect_refused(usual().key("k", 13, raw(std::uint64_t{0})), {"\"k\"", "type 13"});
  expect_refused(usual().key("k", 7, raw(std::uint8_t{2})), {"\"k\"", "boolean of 2"});
  expect_refused(usual().key("k", 9, raw(std::uint32_t{7}) + raw(std::uint64_t{2}) + "\1\3"),
                 {"boolean of 3"});
  expect_refused(usual().key("k", 9, raw(std::uint32_t{9}) + raw(std::uint64_t{1})), {"\"k\"", "arrays"},
                 ErrorCode::unsupported);
}

TEST(GgufFile, RefusesBadTensors) {
  const auto with = [](std::uint32_t type, const std::vector<std::int64_t>& dims, std::uint64_t offset) {
    return usual().tensor_entry("bad", type, dims, offset);
  };
  expect_refused(usual().tensor("x", 0, {1}, "four"), {"\"x\"", "twice"});
  expect_refused(with(0, {}, 0), {"\"bad\"", "0 dimensions", "1 to 4"});
  expect_refused(with(0, {1, 1, 1, 1, 1}, 0), {"5 dimensions"});
  expect_refused(with(0, {0}, 96), {"dimension of 0"});
  expect_refused(with(0, {-1}, 96), {"18446744073709551615"});
  expect_refused(with(0, {std::int64_t{1} << 32, std::int64_t{1} << 31}, 96), {"shape overflows"});
  expect_refused(with(0, {std::int64_t{1} << 62}, 96), {"size overflows"});
  expect_refused(with(test::kGgmlQ4_0, {2, 48}, 96), {"rows of 48", "multiple of 32", "Q4_0"});
  expect_refused(with(0, {8}, 8), {"byte 8", "multiple of 32"});
  expect_refused(with(0, {8}, 32), {"overlap"});
  expect_refused(with(0, {9}, 96), {"36 bytes at 96", "96 bytes of data"});
  expect_refused(with(0, {8}, std::uint64_t{1} << 63), {"outside any file"});
}

TEST(GgufFile, TakesTheAlignmentFromItsKey) {
  for (const std::uint32_t bad : {0u, 4u, 33u, 1u << 20}) {
    expect_refused(usual().u32("general.alignment", bad), {"general.alignment", "power of two"});
  }
  expect_refused(usual().string("general.alignment", "32"), {"general.alignment", "no unsigned number"});
  GgufWriter writer;
  writer.u32("general.alignment", 8).tensor_entry("x", 0, {1}, 0).tensor_entry("y", 0, {1}, 8);
  std::string bytes = writer.header();
  bytes.resize((bytes.size() + 7) / 8 * 8, '\0');
  const GgufFile file = read(bytes + "aaaa....bbbb");
  EXPECT_EQ(std::to_integer<char>(file.data("y")[0]), 'b');
}

}  // namespace
}  // namespace tandem
