#include "core/io/safetensors.hpp"

#include <cstring>

#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

using test::expect_error;
using test::le64;
using test::safetensors_bytes;
using test::TempDir;
using testing::ElementsAre;

constexpr const char* kOneFloat = R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})";

/// A file that is written, opened and, so that every mapping is tested for living on, deleted at once.
SafetensorsFile open_bytes(std::string_view bytes) {
  const TempDir dir;
  return SafetensorsFile(dir.write("t.safetensors", bytes));
}

SafetensorsFile open_file(std::string_view header, std::string_view data) {
  return open_bytes(safetensors_bytes(header, data));
}

void expect_corrupt(std::string_view bytes, std::initializer_list<const char*> parts) {
  expect_error([&] { open_bytes(bytes); }, ErrorCode::corrupt, {"t.safetensors"});
  expect_error([&] { open_bytes(bytes); }, ErrorCode::corrupt, parts);
}

void expect_corrupt(std::string_view header, std::size_t data_bytes,
                    std::initializer_list<const char*> parts) {
  expect_corrupt(safetensors_bytes(header, std::string(data_bytes, 'd')), parts);
}

std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"dtype": "{}", "shape": {}, "data_offsets": {}}})", dtype, shape, offsets);
}

std::string float_bytes(std::initializer_list<float> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float));
}

TEST(Safetensors, ReadsTensorsMetadataAndSizes) {
  const std::string header =
      "{\"b\": " + entry("F32", "[2, 3]", "[8, 32]") +
      ", \"__metadata__\": {\"format\": \"pt\"}, \"a\": " + entry("BF16", "[4]", "[0, 8]") + "}";
  const auto file =
      open_file(header, std::string("\x80\x3f\0\0\0\x40\0\0", 8) + float_bytes({0, 1, 2, 3, 4, 5.5f}));
  EXPECT_THAT(file.names(), ElementsAre("a", "b"));
  EXPECT_TRUE(file.contains("a"));
  EXPECT_FALSE(file.contains("c"));
  EXPECT_FALSE(file.contains("__metadata__"));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.dtype("a"), DType::bf16);
  EXPECT_EQ(file.shape("b"), (Shape{2, 3}));
  EXPECT_EQ(file.info("b").dtype, "F32");
  EXPECT_THAT(file.info("b").dims, ElementsAre(2, 3));
  EXPECT_EQ(file.info("b").begin, 8);
  EXPECT_EQ(file.info("b").bytes, 24);

  const HostTensor a = file.tensor("a");
  EXPECT_EQ(a.view.dtype, DType::bf16);
  EXPECT_EQ(static_cast<const bf16*>(a.view.data)[0].bits, 0x3f80);
  EXPECT_EQ(static_cast<const bf16*>(a.view.data)[2].bits, 0x4000);
  const HostTensor b = file.tensor("b");
  EXPECT_EQ(b.view.shape, (Shape{2, 3}));
  EXPECT_TRUE(b.view.contiguous());
  EXPECT_EQ(b.view.row<float>(1)[2], 5.5f);
}

TEST(Safetensors, ReadsEveryElementType) {
  const std::string header = "{\"f64\": " + entry("F64", "[1]", "[0, 8]") +
                             ", \"i32\": " + entry("I32", "[1]", "[8, 12]") +
                             ", \"f16\": " + entry("F16", "[1]", "[12, 14]") + "}";
  const auto file = open_file(header, std::string("\0\0\0\0\0\0\xf0\x3f\xfe\xff\xff\xff\0\x3c", 14));
  EXPECT_EQ(*file.tensor("f64").view.row<double>(0), 1.0);
  EXPECT_EQ(*file.tensor("i32").view.row<std::int32_t>(0), -2);
  EXPECT_EQ(file.tensor("f16").view.row<f16>(0)->bits, 0x3c00);
}

TEST(Safetensors, TensorOutlivesTheFile) {
  HostTensor tensor;
  {
    const auto file = open_file(kOneFloat, float_bytes({42}));
    tensor = file.tensor("a");
  }
  EXPECT_EQ(*tensor.view.row<float>(0), 42);
}

TEST(Safetensors, AlignsDataThatTheFileDoesNot) {
  // Spaces are allowed after the header, so its length shifts the data through all alignments.
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const std::string header = "{\"i\": " + entry("F32", "[2]", "[0, 8]") +
                               ", \"d\": " + entry("F64", "[1]", "[8, 16]") + "}" + std::string(shift, ' ');
    HostTensor floats, doubles;
    {
      const auto file = open_file(header, float_bytes({1.5f, -3}) + std::string("\0\0\0\0\0\0\xf0\x3f", 8));
      floats = file.tensor("i");
      doubles = file.tensor("d");
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(floats.view.data) % 4, 0u) << shift;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(doubles.view.data) % 8, 0u) << shift;
    EXPECT_EQ(floats.view.row<float>(0)[0], 1.5f) << shift;
    EXPECT_EQ(floats.view.row<float>(1)[0], -3.0f) << shift;
    EXPECT_EQ(*doubles.view.row<double>(0), 1.0) << shift;
  }
}

TEST(Safetensors, ViewsAlignedDataWithoutCopying) {
  const std::string header = std::string(kOneFloat) + std::string((8 - std::strlen(kOneFloat) % 8) % 8, ' ');
  const auto file = open_file(header, float_bytes({1}));
  EXPECT_EQ(file.tensor("a").view.data, file.tensor("a").view.data);
}

TEST(Safetensors, ReadsEmptyTensorsScalarsAndNoTensors) {
  const std::string header = "{\"empty\": " + entry("F32", "[0, 5]", "[0, 0]") +
                             ", \"scalar\": " + entry("F32", "[]", "[0, 4]") +
                             ", \"last\": " + entry("F32", "[3, 0]", "[4, 4]") + "}";
  const auto file = open_file(header, float_bytes({7}));
  EXPECT_EQ(file.tensor("empty").view.shape, (Shape{0, 5}));
  EXPECT_EQ(file.tensor("last").view.bytes(), 0);
  EXPECT_EQ(file.tensor("scalar").view.shape.rank, 0);
  EXPECT_EQ(*static_cast<const float*>(file.tensor("scalar").view.data), 7);
  EXPECT_TRUE(open_file("{}", "").names().empty());
  EXPECT_TRUE(open_file("{\"__metadata__\": {}}", "").names().empty());
}

TEST(Safetensors, RefusesForeignTypesAndRanksOnlyWhenAskedFor) {
  const std::string header = "{\"i64\": " + entry("I64", "[1]", "[0, 8]") +
                             ", \"f8\": " + entry("F8_E4M3", "[4]", "[8, 12]") +
                             ", \"new\": " + entry("F4", "[9]", "[12, 16]") +
                             ", \"deep\": " + entry("F32", "[1,1,1,1,1]", "[16, 20]") +
                             ", \"good\": " + entry("F32", "[1]", "[20, 24]") + "}";
  const auto file = open_file(header, std::string(20, '\0') + float_bytes({2}));
  EXPECT_EQ(*file.tensor("good").view.row<float>(0), 2);
  EXPECT_EQ(file.info("new").dtype, "F4");
  const auto code = ErrorCode::unsupported;
  expect_error([&] { file.tensor("i64"); }, code,
               {"t.safetensors", "\"i64\"", "\"I64\"", "expected F32, BF16"});
  expect_error([&] { file.tensor("f8"); }, code, {"\"F8_E4M3\""});
  expect_error([&] { file.dtype("new"); }, code, {"\"F4\""});
  expect_error([&] { file.tensor("deep"); }, code, {"\"deep\"", "5 dimensions", "at most 4"});
  expect_error([&] { file.tensor("absent"); }, ErrorCode::not_found,
               {"t.safetensors", "no tensor \"absent\""});
  expect_error([&] { file.info("absent"); }, ErrorCode::not_found, {"\"absent\""});
}

TEST(SafetensorsDamage, HeaderLength) {
  expect_corrupt("", {"is empty"});
  expect_corrupt("1234567", {"7 bytes", "at least 8"});
  expect_corrupt(le64(0), {"not valid JSON at byte 1"});
  expect_corrupt(le64(3) + "{}", {"a header of 3 bytes in a file of 10", "truncated"});
  expect_corrupt(le64(100'000'001) + "{}", {"100000001", "at most 100000000"});
  expect_corrupt(le64(1ull << 63) + "{}", {"9223372036854775808", "at most"});
  expect_corrupt(le64(~0ull) + "{}", {"18446744073709551615", "at most"});  // -1, and 8 + -1 would wrap
}

TEST(SafetensorsDamage, HeaderText) {
  expect_corrupt("not json", 0, {"header: not valid JSON at byte 2"});
  expect_corrupt("[]", 0, {"the header is an array of 0", "expected a JSON object"});
  expect_corrupt("3", 0, {"the header is 3"});
  expect_corrupt("{\"a\": 1}", 0, {"tensor \"a\"", "the entry is 1"});
  expect_corrupt("{\"a\": " + std::string(100'000, '['), 0, {"nested deeper"});
  expect_corrupt("{\"__metadata__\": 1}", 0, {"__metadata__ is 1"});
  expect_corrupt("{\"__metadata__\": {\"k\": 1}}", 0, {"__metadata__", "\"k\" is 1"});
  expect_corrupt("{\"new\\nline\": 1}", 0, {R"(tensor "new\nline")"});
}

TEST(SafetensorsDamage, EntryMembers) {
  expect_corrupt(R"({"a": {"shape": [1], "data_offsets": [0, 4]}})", 4, {"tensor \"a\": dtype is missing"});
  expect_corrupt(R"({"a": {"dtype": "F32", "data_offsets": [0, 4]}})", 4, {"shape is missing"});
  expect_corrupt(R"({"a": {"dtype": "F32", "shape": [1]}})", 4, {"data_offsets is missing"});
  expect_corrupt(R"({"a": {"dtype": 5, "shape": [1], "data_offsets": [0, 4]}})", 4, {"dtype is 5"});
  const auto with = [](const char* shape, const char* offsets) {
    return "{\"a\": " + entry("F32", shape, offsets) + "}";
  };
  expect_corrupt(with("1", "[0, 4]"), 4, {"shape is 1", "expected an array"});
  expect_corrupt(with("[-1]", "[0, 4]"), 4, {"shape contains -1"});
  expect_corrupt(with("[1.0]", "[0, 4]"), 4, {"shape contains 1.0"});
  expect_corrupt(with("[\"1\"]", "[0, 4]"), 4, {"shape contains \"1\""});
  expect_corrupt(with("[9223372036854775808]", "[0, 4]"), 4, {"shape contains 9223372036854775808"});
  expect_corrupt(with("[1]", "[0]"), 4, {"data_offsets has 1 numbers, expected 2"});
  expect_corrupt(with("[1]", "[0, 4, 8]"), 4, {"data_offsets has 3"});
  expect_corrupt(with("[1]", "[-4, 0]"), 4, {"data_offsets contains -4"});
  expect_corrupt(with("[1]", "{}"), 4, {"data_offsets is an object"});
}

TEST(SafetensorsDamage, Offsets) {
  const auto with = [](const char* offsets) { return "{\"a\": " + entry("F32", "[1]", offsets) + "}"; };
  expect_corrupt(with("[4, 0]"), 4, {"\"a\"", "[4, 0] end before they begin"});
  expect_corrupt(with("[0, 4]"), 3, {"\"a\"", "leave the 3 bytes of data", "truncated"});
  expect_corrupt(with("[4, 8]"), 4, {"leave the 4 bytes"});
  expect_corrupt(with("[9223372036854775803, 9223372036854775807]"), 4, {"leave the 4 bytes"});
}

TEST(SafetensorsDamage, Sizes) {
  const auto with = [](const char* dtype, const char* shape) {
    return "{\"a\": " + entry(dtype, shape, "[0, 8]") + "}";
  };
  expect_corrupt(with("F32", "[3]"), 8, {"\"a\": 8 bytes of data, expected 12 for F32 [3]"});
  expect_corrupt(with("BF16", "[2, 3]"), 8, {"expected 12 for BF16 [2, 3]"});
  expect_corrupt(with("I64", "[2]"), 8, {"expected 16 for I64 [2]"});
  expect_corrupt(with("F32", "[0]"), 8, {"8 bytes of data, expected 0"});
  expect_corrupt(with("F32", "[4611686018427387904, 4]"), 8, {"\"a\"", "[4611686018427387904, 4] overflows"});
  expect_corrupt(with("F32", "[4611686018427387904, 4, 4]"), 8, {"overflows"});
  expect_corrupt(with("F32", "[4294967296, 4294967296]"), 8, {"overflows"});  // 2^64: would wrap to 0
  expect_corrupt(with("F4", "[4611686018427387904, 4]"), 8, {"overflows"});
  // Zero elements in all, but a product over the inner dimensions could not be computed.
  expect_corrupt("{\"a\": " + entry("F32", "[0, 4611686018427387904, 4]", "[0, 0]") + "}", 0, {"overflows"});
}

TEST(SafetensorsDamage, Coverage) {
  const auto two = [](const char* a, const char* b) {
    return "{\"a\": " + entry("F32", "[2]", a) + ", \"b\": " + entry("F32", "[2]", b) + "}";
  };
  EXPECT_NO_THROW(open_file(two("[8, 16]", "[0, 8]"), std::string(16, 'd')));
  expect_corrupt(two("[0, 8]", "[4, 12]"), 12, {"\"b\"", "at byte 4 overlap", "ends at 8"});
  expect_corrupt(two("[0, 8]", "[0, 8]"), 8, {"overlap"});
  expect_corrupt(two("[0, 8]", "[12, 20]"), 20, {"\"b\"", "begin at byte 12", "ends at 8", "hole"});
  expect_corrupt(two("[4, 12]", "[12, 20]"), 20, {"\"a\"", "begin at byte 4", "ends at 0", "hole"});
  expect_corrupt(two("[0, 8]", "[8, 16]"), 17, {"cover 16 of 17 bytes"});
  expect_corrupt("{}", 1, {"cover 0 of 1 bytes"});
  const std::string inside =
      "{\"a\": " + entry("F32", "[2]", "[0, 8]") + ", \"e\": " + entry("F32", "[0]", "[4, 4]") + "}";
  expect_corrupt(inside, 8, {"\"e\"", "overlap"});
}

TEST(Safetensors, ReadsTheOracle) {
  const auto folder = test::data_folder("TANDEM_TEST_DATA") / "oracle";
  for (const char* name : {"tiny", "gdn_small", "gdn_27b"}) {
    const SafetensorsFile file(folder / name / "oracle.safetensors");
    std::int64_t bytes = 0;
    for (const std::string& tensor : file.names()) bytes += file.tensor(tensor).view.bytes();
    EXPECT_GT(bytes, 0) << name;
  }
  const SafetensorsFile tiny(folder / "tiny" / "oracle.safetensors");
  EXPECT_EQ(tiny.shape("layer0.S"), (Shape{6, 64, 32}));
}

TEST(Safetensors, RefusesADirectoryAndAMissingFile) {
  const TempDir dir;
  expect_error([&] { SafetensorsFile file(dir.path()); }, ErrorCode::invalid_argument, {"is a directory"});
  expect_error([&] { SafetensorsFile file(dir.path() / "x"); }, ErrorCode::not_found, {"no such file"});
}

}  // namespace
}  // namespace tandem
