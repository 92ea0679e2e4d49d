#include "core/io/checkpoint_writer.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/io/checkpoint.hpp"
#include "core/io/geometries.hpp"
#include "core/io/json.hpp"
#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

using test::TempDir;

NewTensor filled(const std::string& name, std::int64_t elements, float value) {
  const auto fill = [value](std::int64_t begin, std::int64_t end, void* to) {
    std::fill_n(static_cast<float*>(to), end - begin, value);
  };
  return {name, DType::f32, Shape{elements}, fill};
}

std::vector<NewTensor> tensors() {
  return {filled("a", 10, 1), filled("d", 50, 2), filled("b", 5, 3), filled("c", 5, 4)};
}

void expect_values(const std::filesystem::path& directory) {
  const Checkpoint checkpoint = Checkpoint::open(directory);
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(checkpoint.total_bytes(), 280);
  EXPECT_EQ(checkpoint.tensor("a").view.row<float>(0)[9], 1);
  EXPECT_EQ(checkpoint.tensor("d").view.row<float>(0)[49], 2);
  EXPECT_EQ(checkpoint.tensor("c").view.row<float>(0)[4], 4);
}

TEST(CheckpointWriter, WritesOneFileWhenThatIsEnough) {
  const TempDir folder;
  write_checkpoint(folder.path(), tensors(), 280);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "model.safetensors.index.json"));
  expect_values(folder.path());
}

TEST(CheckpointWriter, CutsIntoShardsInTheGivenOrder) {
  const TempDir folder;
  write_checkpoint(folder.path(), tensors(), 100);  // a; d, which is larger; b and c
  expect_values(folder.path());
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  std::vector<std::string> files;
  for (const auto& file : checkpoint.files()) files.push_back(file.filename().string());
  EXPECT_EQ(files,
            (std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                      "model-00003-of-00003.safetensors"}));
  const Json index = read_json_file(folder.path() / "model.safetensors.index.json", 1 << 20);
  EXPECT_EQ(index["metadata"]["total_size"], 280);
  EXPECT_EQ(index["weight_map"]["b"], "model-00003-of-00003.safetensors");
}

TEST(ModelConfigWriter, EveryPublishedGeometryIsReadBack) {
  for (const std::string_view geometry : published_geometries()) {
    const TempDir folder;
    const ModelConfig config = published_geometry(geometry);
    write_model_config(folder.path(), config, DType::bf16);
    EXPECT_EQ(load_model_config(folder.path()), config) << geometry;
    std::filesystem::remove(folder.path() / "generation_config.json");
    EXPECT_EQ(load_model_config(folder.path()), config) << geometry;
  }
}

TEST(ModelConfigWriter, WritesNoStopIdsWhenThereAreNone) {
  const TempDir folder;
  ModelConfig config = published_geometry("0.8B");
  config.eos_token_ids.clear();
  write_model_config(folder.path(), config, DType::f32);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "generation_config.json"));
  EXPECT_EQ(load_model_config(folder.path()), config);
  const Json json = read_json_file(folder.path() / "config.json", 1 << 20);
  EXPECT_EQ(json["dtype"], "float32");
  EXPECT_EQ(json["rope_parameters"]["mrope_section"], Json({11, 11, 10}));
}

}  // namespace
}  // namespace tandem
