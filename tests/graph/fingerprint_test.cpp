#include "graph/model/fingerprint.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "core/io/model_config_fields.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/tensor_names.hpp"
#include "graph/model/widen.hpp"
#include "graph/session/session_snapshot.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/io/io_test_support.hpp"
#include "tests/properties/model_runs.hpp"

/// Everything that decides a bit of a state decides the fingerprint, and a state of another one is refused.
namespace tandem {
namespace {

void change(std::string& value) { value += "x"; }
void change(std::int64_t& value) { ++value; }
void change(double& value) { value = std::nextafter(value, 1e9); }
void change(bool& value) { value = !value; }
void change(std::vector<std::int64_t>& value) { value.push_back(1); }
void change(std::vector<LayerKind>& value) { std::swap(value[2], value[3]); }

/// The shipped model's weights under another configuration, whether they fit or not.
std::string fingerprint_under(const ModelConfig& config, const Graph& graph) {
  const std::shared_ptr<const Model> model = tiny_model();
  std::vector<WeightData> weights;
  for (const Weight& weight : graph.weights()) {
    const bool head = weight.name == "lm_head.weight";
    weights.push_back(
        model->weight(weight_named(model->graph(), head ? "embed_tokens.weight" : weight.name)));
  }
  return fingerprint_of(config, graph, weights);
}

/// A file with a state of the shipped model, and a session that would take it.
class FingerprintTest : public testing::Test {
 protected:
  FingerprintTest() {
    const SequenceId sequence = session_.open();
    session_.feed(sequence, heldout_ids(5), Outputs::none);
    save_sequence(file_, session_, sequence, heldout_ids(5));
  }
  ~FingerprintTest() override { std::filesystem::remove(file_); }

  void expect_refused(const std::string& fingerprint) {
    EXPECT_NE(fingerprint, tiny_model()->fingerprint());
    expect_error(ErrorCode::mismatch, "model: expected " + fingerprint,
                 [&] { require_fit(session_.state(), Snapshot::open(file_), fingerprint); });
  }

  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("tandem-fingerprint-" + std::to_string(::getpid()) + ".tds");
  Context context_ = two_cpus();
  Session session_{context_, tiny_model(), SessionOptions()};
};

TEST_F(FingerprintTest, EveryFieldOfTheConfigurationThatDecidesABitDecidesIt) {
  const ModelConfig original = tiny_model()->config();
  const Graph graph = build_model_graph(original);
  ASSERT_EQ(fingerprint_under(original, graph), tiny_model()->fingerprint());
  int fields = 0;
  const auto count = [&](std::string_view, const auto&, FieldUse) { ++fields; };
  visit_fields(original, count);
  ASSERT_GE(fields, 20);
  for (int n = 0; n < fields; ++n) {
    ModelConfig config = original;
    std::string name;
    FieldUse use{};
    int at = 0;
    visit_fields(config, [&](std::string_view field, auto& value, FieldUse of) {
      if (at++ != n) return;
      name = field;
      use = of;
      change(value);
    });
    SCOPED_TRACE(name);
    ASSERT_FALSE(config == original);
    if (use == FieldUse::arithmetic) expect_refused(fingerprint_under(config, graph));
    if (use == FieldUse::weights) expect_refused(fingerprint_under(config, build_model_graph(config)));
    if (use == FieldUse::none) {
      EXPECT_EQ(fingerprint_under(config, graph), tiny_model()->fingerprint());
    }
  }
}

TEST_F(FingerprintTest, TheGearsOfEveryLayerDecideIt) {
  std::set<std::string> seen{tiny_model()->fingerprint()};
  std::vector<std::string> asked{"head=f32", "head=q4"};
  for (int layer = 0; layer < 8; ++layer) {
    const char* mixer = layer % 4 == 3 ? "attention" : "gdn";
    for (const char* gear : {"f32", "q4", "q4q8"}) {
      asked.push_back(fmt::format("layer.{}.mlp={}", layer, gear));
      asked.push_back(fmt::format("layer.{}.{}={}", layer, mixer, gear));
    }
  }
  for (const std::string& gears : asked) {
    SCOPED_TRACE(gears);
    const std::string fingerprint =
        Model::open(test::data_folder("TANDEM_MODELS") / "tiny", Gears::parse(gears))->fingerprint();
    EXPECT_TRUE(seen.insert(fingerprint).second);
    expect_refused(fingerprint);
  }
}

TEST_F(FingerprintTest, EveryElementOfAVectorDecidesIt) {
  const std::shared_ptr<const Model> model = tiny_model();
  std::set<std::string> seen{model->fingerprint()};
  for (const char* name :
       {"norm.weight", "layers.0.linear_attn.A_log", "layers.0.linear_attn.conv1d.weight"}) {
    const HostTensor original = model->weight(weight_named(model->graph(), name)).on_host();
    const std::int64_t elements = original.view.shape.elements();
    for (const std::int64_t at : {std::int64_t{0}, elements / 2, elements - 1}) {
      const auto source = [&](const Weight& weight) -> HostTensor {
        if (weight.name != name) return model->weight(weight_named(model->graph(), weight.name)).on_host();
        HostTensor copy = widen_to_f32(original.view);
        float* values = const_cast<float*>(static_cast<const float*>(copy.view.data));
        values[at] += 1.0f;
        return copy;
      };
      const Model changed(model->config(), build_model_graph(model->config()), source);
      EXPECT_TRUE(seen.insert(changed.fingerprint()).second) << name << " " << at;
      expect_refused(changed.fingerprint());
    }
  }
}

}  // namespace
}  // namespace tandem
