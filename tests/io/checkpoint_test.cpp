#include "core/io/checkpoint.hpp"

#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TempDir;
using testing::ElementsAre;

constexpr const char* kIndex = "model.safetensors.index.json";

/// The bytes of a file of f32 tensors of one element each.
std::string shard(std::initializer_list<std::pair<const char*, float>> tensors) {
  std::string header, data;
  for (const auto& [name, value] : tensors) {
    header += fmt::format(R"({}"{}": {{"dtype": "F32", "shape": [1], "data_offsets": [{}, {}]}})",
                          header.empty() ? "{" : ", ", name, data.size(), data.size() + 4);
    data.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return test::safetensors_bytes(header + "}", data);
}

float value_of(const Checkpoint& checkpoint, std::string_view name) {
  return *checkpoint.tensor(name).view.row<float>(0);
}

void expect_bad_index(const char* index, ErrorCode code, std::initializer_list<const char*> parts) {
  const TempDir dir;
  dir.write("s1.safetensors", shard({{"a", 1}}));
  dir.write(kIndex, index);
  expect_error([&] { Checkpoint::open(dir.path()); }, code, parts);
}

TEST(Checkpoint, ReadsASingleFile) {
  const TempDir dir;
  dir.write("model.safetensors", shard({{"b", 2}, {"a", 1}}));
  const auto checkpoint = Checkpoint::open(dir.path());
  EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b"));
  EXPECT_THAT(checkpoint.files(), ElementsAre(dir.path() / "model.safetensors"));
  EXPECT_EQ(checkpoint.total_bytes(), 8);
  EXPECT_TRUE(checkpoint.contains("b"));
  EXPECT_FALSE(checkpoint.contains("c"));
  EXPECT_EQ(value_of(checkpoint, "b"), 2);
  EXPECT_EQ(checkpoint.info("a").bytes, 4);
  expect_error([&] { checkpoint.tensor("c"); }, ErrorCode::not_found,
               {"no tensor \"c\"", dir.path().c_str()});
}

TEST(Checkpoint, ReadsShardsThroughTheIndex) {
  const TempDir dir;
  dir.write("s1.safetensors", shard({{"a", 1}, {"c", 3}, {"unlisted", 9}}));
  dir.write("s2.safetensors", shard({{"b", 2}, {"a", 77}}));
  dir.write(kIndex,
            R"({"metadata": {"total_size": 12}, "weight_map": {"a": "s1.safetensors", "b": "s2.safetensors",
    "c": "s1.safetensors"}})");
  const auto checkpoint = Checkpoint::open(dir.path());
  EXPECT_THAT(checkpoint.names(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(checkpoint.files(), ElementsAre(dir.path() / "s1.safetensors", dir.path() / "s2.safetensors"));
  EXPECT_EQ(checkpoint.total_bytes(), 12);
  EXPECT_FALSE(checkpoint.contains("unlisted"));
  EXPECT_EQ(value_of(checkpoint, "a"), 1) << "taken from a shard that the index does not name for it";
  EXPECT_EQ(value_of(checkpoint, "b"), 2);
  EXPECT_EQ(value_of(checkpoint, "c"), 3);
}

TEST(Checkpoint, TensorOutlivesIt) {
  const TempDir dir;
  dir.write("model.safetensors", shard({{"a", 5}}));
  const HostTensor tensor = Checkpoint::open(dir.path()).tensor("a");
  EXPECT_EQ(*tensor.view.row<float>(0), 5);
}

TEST(Checkpoint, PrefersTheSingleFile) {
  const TempDir dir;
  dir.write("model.safetensors", shard({{"a", 1}}));
  dir.write(kIndex, "nonsense");
  EXPECT_EQ(value_of(Checkpoint::open(dir.path()), "a"), 1);
}

TEST(Checkpoint, FollowsLinksOfADownloadCache) {
  const TempDir dir;
  fs::create_directory(dir.path() / "snapshot");
  fs::create_symlink(dir.write("blob", shard({{"a", 1}})), dir.path() / "snapshot" / "model.safetensors");
  EXPECT_EQ(value_of(Checkpoint::open(dir.path() / "snapshot"), "a"), 1);
}

TEST(Checkpoint, RefusesWhatIsNoModelDirectory) {
  const TempDir dir;
  expect_error([&] { Checkpoint::open(dir.path() / "absent"); }, ErrorCode::not_found,
               {"no such directory", "absent"});
  expect_error([&] { Checkpoint::open(dir.write("file", "x")); }, ErrorCode::invalid_argument,
               {"is a file, expected a Hugging Face model directory"});
  const TempDir empty;
  expect_error([&] { Checkpoint::open(empty.path()); }, ErrorCode::not_found,
               {empty.path().c_str(), "looked for model.safetensors and model.safetensors.index.json"});
}

TEST(Checkpoint, RefusesABadIndex) {
  const auto corrupt = ErrorCode::corrupt;
  expect_bad_index("{", corrupt, {kIndex, "not valid JSON at byte 2"});
  expect_bad_index("[]", corrupt, {kIndex, "weight_map"});
  expect_bad_index("{}", corrupt, {kIndex, "expected an object weight_map"});
  expect_bad_index(R"({"weight_map": ["a"]})", corrupt, {"expected an object weight_map"});
  expect_bad_index(R"({"weight_map": {"a": 1}})", corrupt, {"tensor \"a\" is in 1", "plain name"});
  expect_bad_index(R"({"weight_map": {"b": "s1.safetensors"}})", corrupt,
                   {kIndex, "\"b\" should be in \"s1.safetensors\""});
  expect_bad_index(R"({"weight_map": {"a": "s1.safetensors", "b": "s2.safetensors"}})", ErrorCode::not_found,
                   {"s2.safetensors", kIndex, "is the download complete"});
}

TEST(Checkpoint, RefusesShardsOutsideTheDirectory) {
  const TempDir dir;
  const fs::path outside = dir.write("outside.safetensors", shard({{"a", 1}}));
  const fs::path model = dir.path() / "model";
  fs::create_directory(model);
  for (const std::string& name :
       {std::string("../outside.safetensors"), outside.string(), std::string(".."), std::string("."),
        std::string(), std::string("x/../../outside.safetensors"), std::string("..\\\\outside.safetensors"),
        std::string("s\\u0000.safetensors")}) {
    dir.write(std::string("model/") + kIndex, "{\"weight_map\": {\"a\": \"" + name + "\"}}");
    expect_error([&] { Checkpoint::open(model); }, ErrorCode::corrupt, {"tensor \"a\" is in", "plain name"});
  }
}

TEST(Checkpoint, RefusesADamagedShardByName) {
  const TempDir dir;
  dir.write("s1.safetensors", shard({{"a", 1}}).substr(0, 70));
  dir.write(kIndex, R"({"weight_map": {"a": "s1.safetensors"}})");
  expect_error([&] { Checkpoint::open(dir.path()); }, ErrorCode::corrupt, {"s1.safetensors", "truncated"});
}

TEST(Checkpoint, ReadsEveryTensorOfTheTinyModel) {
  const auto checkpoint = Checkpoint::open(test::data_folder("TANDEM_MODELS") / "tiny");
  EXPECT_EQ(checkpoint.names().size(), 108u);
  EXPECT_EQ(checkpoint.total_bytes(), 7'085'456);
  std::uint64_t nonzero = 0;
  for (const std::string& name : checkpoint.names()) {
    const HostTensor tensor = checkpoint.tensor(name);
    ASSERT_EQ(tensor.view.dtype, DType::bf16) << name;
    const auto* elements = static_cast<const bf16*>(tensor.view.data);
    for (std::int64_t i = 0; i < tensor.view.shape.elements(); ++i) nonzero += elements[i].bits != 0;
  }
  EXPECT_GT(nonzero, 3'000'000u);
  EXPECT_EQ(checkpoint.tensor("model.embed_tokens.weight").view.shape, (Shape{2048, 192}));
  EXPECT_EQ(checkpoint.tensor("model.layers.0.linear_attn.conv1d.weight").view.shape, (Shape{448, 1, 4}));
}

}  // namespace
}  // namespace tandem
