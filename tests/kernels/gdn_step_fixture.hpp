#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/kernels/kernel_fixture.hpp"

namespace tandem::test {

/// A backend with one variant forced for every operator; an empty name forces none.
struct VariantParam {
  MakeBackend make;
  std::string variant;
  bool usable = true;
};
void PrintTo(const VariantParam& param, std::ostream* out);

/// The backend's own choice, and every variant that it has for all operators.
std::vector<VariantParam> variants_of(const MakeBackend& make);

/// "avx2", or "chosen".
std::string variant_name(const testing::TestParamInfo<VariantParam>& info);

/// A whole Gated DeltaNet layer as operators of a backend, against q35_gdn_step.
class GdnStepTest : public testing::TestWithParam<VariantParam> {
 protected:
  void SetUp() override;

  std::unique_ptr<Backend> backend_;
};

}  // namespace tandem::test
