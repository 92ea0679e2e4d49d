#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/builtin.hpp"
#include "tools/oracle/check.hpp"

namespace tandem {
namespace {

std::filesystem::path data(const char* folder) {
  return std::filesystem::path(std::getenv("TANDEM_TEST_DATA")) / "oracle" / folder;
}

std::filesystem::path tiny_model() { return std::filesystem::path(std::getenv("TANDEM_MODELS")) / "tiny"; }

void expect_all_ok(const tools::OracleReport& report, std::size_t expected_lines) {
  EXPECT_EQ(report.lines().size(), expected_lines);
  for (const tools::OracleLine& line : report.lines()) EXPECT_TRUE(line.ok) << tools::to_text(line);
}

/// A check that compares less than it did is a check that passes for the wrong reason: hence the counts.
constexpr std::size_t kLayerLines = 37;
constexpr std::size_t kModelLines = 25;

class OracleTest : public testing::TestWithParam<const char*> {};

TEST_P(OracleTest, SmallLayer) {
  tools::OracleReport report;
  tools::check_layer_oracle(data("gdn_small"), make_context({}), GetParam(), report);
  expect_all_ok(report, kLayerLines);
}

TEST_P(OracleTest, TinyModel) {
  tools::OracleReport report;
  tools::check_model_oracle(data("tiny"), Tokenizer::load(tiny_model() / "tokenizer.json"),
                            Model::open(tiny_model()), make_context({}), GetParam(), report);
  expect_all_ok(report, kModelLines);
}

INSTANTIATE_TEST_SUITE_P(Backends, OracleTest, testing::Values("cpu", "reference"),
                         [](const auto& info) { return info.param; });

/// 442 MB of weights and 512 tokens.
TEST(LayerOracle27B, Cpu) {
  tools::OracleReport report;
  tools::check_layer_oracle(data("gdn_27b"), make_context({}), "cpu", report);
  expect_all_ok(report, kLayerLines);
}

}  // namespace
}  // namespace tandem
