#include "graph/model/packed_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/io/quantization.hpp"
#include "graph/model/model_files.hpp"
#include "graph/model/weight_sizes.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/io/io_test_support.hpp"
#include "tests/properties/model_runs.hpp"
#include "tests/share.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMixed = "gdn=q4,mlp=q4q8,head=q4q8,attention=bf16,layer.1=f32,layer.3.attention=q4";

std::vector<PackedGroup> pack_tiny(const fs::path& to, const char* gears, PackOptions options = {}) {
  Threads threads(2);
  const Gears parsed = Gears::parse(gears);
  return write_packed_model(pack_source(tiny_directory(), parsed), parsed, to, threads, options);
}

/// Every weight of two models, by bits.
void expect_same_weights(const Model& expected, const Model& found) {
  EXPECT_EQ(expected.fingerprint(), found.fingerprint());
  ASSERT_EQ(expected.graph().weights().size(), found.graph().weights().size());
  for (std::size_t i = 0; i < expected.graph().weights().size(); ++i) {
    const HostTensor a = expected.weight(static_cast<WeightId>(i)).on_host(),
                     b = found.weight(static_cast<WeightId>(i)).on_host();
    const std::string& name = expected.graph().weights()[i].name;
    EXPECT_EQ(name, found.graph().weights()[i].name);
    ASSERT_EQ(a.view.dtype, b.view.dtype) << name;
    ASSERT_EQ(a.view.shape, b.view.shape) << name;
    EXPECT_EQ(std::memcmp(a.view.data, b.view.data, static_cast<std::size_t>(a.view.bytes())), 0) << name;
  }
}

TEST(PackedFiles, AreTheModelThatGearsMakeOfTheOriginal) {
  for (const char* gears : {"q4", "q4q8", kMixed, "head=f32"}) {
    const test::TempDir folder;
    pack_tiny(folder.path() / "model", gears);
    const auto packed = Model::open(folder.path() / "model");
    const auto original = open_tiny(Gears::parse(gears));
    expect_same_weights(*original, *packed);
    EXPECT_TRUE(packed->conversions().empty()) << "used as it is";
    RunOptions run;
    run.model = original;
    const std::vector<TokenId> ids = heldout_ids(20);
    const Outcome expected = run_tokens(two_cpus(), ids, run);
    run.model = packed;
    expect_same(expected, run_tokens(two_cpus(), ids, run), gears);
  }
}

TEST(PackedFiles, ShardsAndSyntheticModelsAreTheSame) {
  const test::TempDir folder;
  const SyntheticSpec spec = parse_synthetic_spec("0.8B:layers=4,vocab=64");
  const Gears gears = Gears::parse("q4q8,layer.1.mlp=bf16,head=q4");
  Threads threads(2);
  PackOptions options;
  options.shard_bytes = 4 << 20;
  write_packed_model(pack_source(spec, gears), gears, folder.path() / "model", threads, options);
  EXPECT_GT(Checkpoint::open(folder.path() / "model").files().size(), 3u);
  expect_same_weights(*make_synthetic_model(spec, gears), *Model::open(folder.path() / "model"));
}

TEST(PackedFiles, FourBitGearsAreExchangedAndOthersRefused) {
  const test::TempDir folder;
  pack_tiny(folder.path() / "model", "q4q8");
  const auto q4 = Model::open(folder.path() / "model", Gears::parse("q4"));
  EXPECT_EQ(q4->fingerprint(), open_tiny(Gears::parse("q4"))->fingerprint());
  expect_error(ErrorCode::mismatch, "is stored in 4 bits and was asked for in bf16",
               [&] { Model::open(folder.path() / "model", Gears::parse("layer.2.mlp=bf16")); });
  const ModelFiles files(folder.path() / "model");
  expect_error(ErrorCode::mismatch, "is stored in 4 bits and was asked for in f32",
               [&] { weight_sizes(files.graph(Gears::parse("f32")), files); });
  EXPECT_EQ(weight_sizes(files.graph({}), files), weight_sizes(*Model::open(folder.path() / "model")));
  expect_error(ErrorCode::invalid_argument, "is in 4 bits already",
               [&] { pack_source(folder.path() / "model", Gears::parse("q4")); });
}

TEST(PackedFiles, TellWhatWasWritten) {
  const test::TempDir folder;
  std::int64_t last = 0, all = 0;
  PackOptions options;
  options.progress = [&](std::int64_t done, std::int64_t total) {
    EXPECT_GE(done, last);
    last = done;
    all = total;
  };
  const std::vector<PackedGroup> groups = pack_tiny(folder.path() / "model", kMixed, options);
  EXPECT_EQ(last, all);
  std::int64_t after = 0;
  for (const PackedGroup& group : groups) {
    after += group.bytes_after;
    const bool four_bits = group.gear.starts_with("q4");
    EXPECT_EQ(group.error.squared_values > 0, four_bits) << group.group << " " << group.gear;
    if (!four_bits) continue;
    EXPECT_EQ(group.bytes_after * 32, group.bytes_before * 9);
    const double rms = std::sqrt(group.error.squared_error / group.error.squared_values);
    EXPECT_GT(rms, 0.02);
    EXPECT_LT(rms, 0.15);
  }
  EXPECT_EQ(after, Checkpoint::open(folder.path() / "model").total_bytes());
  EXPECT_TRUE(fs::exists(folder.path() / "model" / "tokenizer.json"));
}

TEST(PackedFiles, WhatFailsHalfWayLeavesNothing) {
  const test::TempDir folder;
  PackOptions options;
  options.progress = [](std::int64_t done, std::int64_t) {
    if (done > 0) fail(ErrorCode::interrupted, "enough");
  };
  expect_error(ErrorCode::interrupted, "enough", [&] { pack_tiny(folder.path() / "model", "q4", options); });
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

/// A packed directory that tests may change.
class ChangedPack : public testing::Test {
 protected:
  ChangedPack() { pack_tiny(path_, "mlp=q4"); }

  void change_config(const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json config = nlohmann::json::parse(std::ifstream(path_ / "config.json"));
    change(config);
    std::ofstream(path_ / "config.json") << config.dump();
  }
  void change_header(const std::function<void(nlohmann::json&)>& change) {
    const std::string bytes = read_text_file(path_ / "model.safetensors", 1 << 30);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length));
    change(header);
    fs::remove(path_ / "model.safetensors");
    std::ofstream(path_ / "model.safetensors", std::ios::binary)
        << test::safetensors_bytes(header.dump(), std::string_view(bytes).substr(8 + length));
  }
  void expect_refused(ErrorCode code, const std::string& words) {
    expect_error(code, words, [&] { Model::open(path_); });
    expect_error(code, words, [&] {
      const ModelFiles files(path_);
      weight_sizes(files.graph({}), files);
    });
  }

  test::TempDir folder_;
  fs::path path_ = folder_.path() / "model";
  const std::string up_ = "model.layers.2.mlp.up_proj.weight";
};

TEST_F(ChangedPack, UnknownMethodsAndVersionsAreRefusedByName) {
  change_config([](auto& c) { c["quantization_config"]["quant_method"] = "gptq"; });
  expect_refused(ErrorCode::unsupported, "quantised by the method \"gptq\", expected tandem-raw-q4");
  change_config([](auto& c) {
    c["quantization_config"] = {{"quant_method", "tandem-raw-q4"}, {"version", 2}, {"gear", "q4"}};
  });
  expect_refused(ErrorCode::unsupported, "version \"2\" of tandem-raw-q4, expected 1");
  change_config([](auto& c) {
    c["quantization_config"] = {{"quant_method", "tandem-raw-q4"}, {"version", 1}, {"gear", "mlp=q5"}};
  });
  expect_refused(ErrorCode::corrupt, "quantization_config: gear 'mlp=q5'");
  change_config([](auto& c) { c["quantization_config"].erase("gear"); });
  expect_refused(ErrorCode::invalid_argument, "gear");
}

TEST_F(ChangedPack, FilesOfAnotherVersionAreRefused) {
  change_header([](auto& header) { header["__metadata__"]["quant_version"] = "2"; });
  expect_refused(ErrorCode::unsupported, "model.safetensors: version \"2\" of tandem-raw-q4");
  change_header([](auto& header) { header.erase("__metadata__"); });
  expect_refused(ErrorCode::unsupported, "model.safetensors: quantised by the method \"\"");
}

TEST_F(ChangedPack, FourBitsThatNobodyAnnouncedAreRefused) {
  change_config([](auto& c) { c.erase("quantization_config"); });
  expect_refused(ErrorCode::mismatch, ".q4' is in 4 bits, but config.json has no quantization_config");
}

TEST_F(ChangedPack, AnnouncementAndStorageMustAgree) {
  change_config([](auto& c) { c["quantization_config"]["gear"] = "mlp=q4,layer.3.attention=q4q8"; });
  expect_refused(
      ErrorCode::mismatch,
      "config.json has tensor 'layers.3.self_attn.q_proj.weight' in q4q8, but it is stored in BF16");
  change_config([](auto& c) { c["quantization_config"]["gear"] = "layer.0-6.mlp=q4,layer.7.mlp=f32"; });
  expect_refused(ErrorCode::mismatch, "in f32, but it is stored in 4 bits");
}

TEST_F(ChangedPack, AWrongSizeOrTypeIsRefusedByName) {
  const std::string name = up_ + ".q4";
  change_header([&](auto& header) { header[name]["shape"] = {384, 108}; });  // as many bytes
  expect_refused(ErrorCode::mismatch,
                 "tensor '" + name + "' is U8 [384, 108], expected U8 [41472] for [384, 192] in 4 bits");
  change_header([&](auto& header) {
    header[name] = {{"dtype", "I8"}, {"shape", {41472}}, {"data_offsets", header[name]["data_offsets"]}};
  });
  expect_refused(ErrorCode::mismatch, "is I8 [41472], expected U8 [41472]");
}

TEST_F(ChangedPack, AMissingTensorIsRefusedAndOneThatIsThereTwice) {
  change_header([&](auto& header) {
    header["unused"] = header[up_ + ".q4"];
    header.erase(up_ + ".q4");
  });
  expect_refused(ErrorCode::not_found, "tensor 'layers.2.mlp.up_proj.weight' is missing");
  change_header([&](auto& header) {
    const auto [begin, end] = std::pair(header["unused"]["data_offsets"][0].template get<int>(),
                                        header["unused"]["data_offsets"][1].template get<int>());
    header.erase("unused");
    header[up_ + ".q4"] = {{"dtype", "U8"}, {"shape", {end - begin}}, {"data_offsets", {begin, end}}};
    header[up_] = {{"dtype", "BF16"}, {"shape", {0}}, {"data_offsets", {end, end}}};
  });
  expect_refused(ErrorCode::mismatch, "tensor '" + up_ + "' is there twice, in 4 bits and in BF16");
}

TEST_F(ChangedPack, AnOddAddressIsCopied) {
  const auto expected = Model::open(path_);
  const std::string bytes = read_text_file(path_ / "model.safetensors", 1 << 30);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  std::string header = bytes.substr(8, length);
  header.resize(header.find_last_not_of(' ') + 1);
  header.resize(header.size() + (header.size() % 2 == 0 ? 1 : 0), ' ');
  fs::remove(path_ / "model.safetensors");
  std::ofstream(path_ / "model.safetensors", std::ios::binary)
      << test::safetensors_bytes(header, std::string_view(bytes).substr(8 + length));
  expect_same_weights(*expected, *Model::open(path_));
}

/// Damage anywhere in headers and configuration: the model, or an Error, and never anything else.
TEST_F(ChangedPack, ThousandDamagedDirectoriesAreReadOrRefused) {
  constexpr int kDamaged = 1000;
  const std::string weights = read_text_file(path_ / "model.safetensors", 1 << 30);
  const std::string config = read_text_file(path_ / "config.json", 1 << 20);
  std::uint64_t length = 0;
  std::memcpy(&length, weights.data(), sizeof length);
  const std::size_t announced = config.find("quantization_config");
  int refused = 0;
  for (int n = 0; n < test::share_of(kDamaged); ++n) {
    SCOPED_TRACE(n);
    const CounterRandom random("damage", static_cast<std::uint64_t>(n));
    const bool in_config = n % 4 == 0;
    std::string bytes = in_config ? config : weights;
    const std::size_t first = in_config ? announced : 8, last = in_config ? config.size() : 8 + length;
    constexpr std::string_view kTelling = "0123456789[]{}\",:qU";
    char& byte = bytes[first + random.bits(0) % (last - first)];
    byte = random.bits(1) % 2 == 0 ? kTelling[random.bits(2) % kTelling.size()]
                                   : static_cast<char>(random.bits(2) % 256);
    const fs::path file = path_ / (in_config ? "config.json" : "model.safetensors");
    fs::remove(file);
    std::ofstream(file, std::ios::binary) << bytes;
    try {
      const auto model = Model::open(path_);
      EXPECT_GT(model->weight_bytes(), 0);
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
      ++refused;
    }
    fs::remove(file);
    std::ofstream(file, std::ios::binary) << (in_config ? config : weights);
  }
  EXPECT_GT(refused, test::share_of(kDamaged) / 4);
}

}  // namespace
}  // namespace tandem
