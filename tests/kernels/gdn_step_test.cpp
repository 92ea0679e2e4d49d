#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/numerics.hpp"
#include "tests/kernels/gdn_layer.hpp"
#include "tests/kernels/gdn_step_fixture.hpp"
#include "tests/share.hpp"

namespace tandem::test {
namespace {

constexpr std::uint64_t kLayers = 25;
constexpr std::uint64_t kFewLayers = 5;  ///< of any share: their sizes are all random

bool has_all_operators(const std::vector<KernelInfo>& table, std::string_view variant) {
  return std::ranges::count(table, variant, &KernelInfo::variant) == kOpKinds;
}

/// "" if equal by bits, else where not.
std::string difference(const char* what, const std::vector<float>& expected,
                       const std::vector<float>& found) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (num::bits_of(expected[i]) == num::bits_of(found[i])) continue;
    if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
    return fmt::format("{}[{}]: expected {:08x} ({}), found {:08x} ({})", what, i, num::bits_of(expected[i]),
                       expected[i], num::bits_of(found[i]), found[i]);
  }
  return "";
}

std::string difference(const GdnResult& expected, const GdnResult& found) {
  return difference("out", expected.out, found.out) +
         difference("recurrent", expected.recurrent, found.recurrent) +
         difference("conv", expected.conv, found.conv);
}

}  // namespace

void PrintTo(const VariantParam& param, std::ostream* out) {
  *out << (param.variant.empty() ? "chosen" : param.variant);
}

std::vector<VariantParam> variants_of(const MakeBackend& make) {
  std::vector<VariantParam> params = {{make, "", true}};
  const std::vector<KernelInfo> table = make()->kernels();
  for (const KernelInfo& kernel : table) {
    if (kernel.op == OpKind::gdn_delta && has_all_operators(table, kernel.variant)) {
      params.push_back({make, std::string(kernel.variant), kernel.usable});
    }
  }
  return params;
}

std::string variant_name(const testing::TestParamInfo<VariantParam>& info) {
  return info.param.variant.empty() ? "chosen" : info.param.variant;
}

void GdnStepTest::SetUp() {
  backend_ = GetParam().make();
  if (!GetParam().usable)
    GTEST_SKIP() << backend_->info().name << ": this machine cannot run " << GetParam().variant;
  backend_->force_variant(GetParam().variant);
}

TEST_P(GdnStepTest, TheOperatorsAreTheStep) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + share_of(kLayers, kFewLayers); ++seed) {
    const GdnLayer layer(seed);
    const GdnResult expected = step_through(layer);
    for (std::int64_t at_once : {std::int64_t{1}, std::int64_t{2}, layer.tokens}) {
      ASSERT_EQ(difference(expected, submit_layer(*backend_, layer, at_once)), "")
          << "seed " << seed << ", " << at_once << " tokens at once: " << layer.text();
    }
  }
}

}  // namespace tandem::test
