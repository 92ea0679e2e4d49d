#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/reference/support.hpp"

namespace tandem::test {
namespace {

using testing::HasSubstr;

/// The Error that `action` throws; fails the test if there is none.
template <class Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an Error";
  return {ErrorCode::io, ""};
}

class ReferenceBackendTest : public ReferenceTest {};

TEST_F(ReferenceBackendTest, SaysWhatItIs) {
  EXPECT_EQ(backend_->info().name, "reference");
  EXPECT_EQ(backend_->info().real, DType::f64);
  EXPECT_TRUE(backend_->info().host_memory);
}

TEST_F(ReferenceBackendTest, AllocatesAlignedWritableMemory) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{17} << 20}) {
    const Buffer buffer = backend_->allocate(bytes);
    ASSERT_NE(buffer.data(), nullptr);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
    static_cast<char*>(buffer.data())[bytes - 1] = 1;
  }
}

TEST_F(ReferenceBackendTest, RefusesMoreMemoryThanTheMachineHas) {
  const Error error = error_of([&] { backend_->allocate(std::size_t{1} << 50); });
  EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
  EXPECT_THAT(error.what(), HasSubstr("1125899906842624 bytes"));
}

TEST_F(ReferenceBackendTest, AvailableMemoryIsPlausible) {
  EXPECT_GT(backend_->available_bytes(), std::uint64_t{1} << 20);
  EXPECT_LT(backend_->available_bytes(), std::uint64_t{1} << 50);
}

TEST_F(ReferenceBackendTest, UsesAWeightInPlaceAndKeepsItsOwner) {
  auto mapping = std::make_shared<Array<float>>(random_weight("w", Shape{3, 4}));
  const std::weak_ptr<Array<float>> watch = mapping;
  {
    const ResidentTensor weight = backend_->load({std::as_const(*mapping).view(), mapping});
    EXPECT_EQ(weight.view.data, mapping->row(0));
    EXPECT_EQ(weight.view.shape, (Shape{3, 4}));
    EXPECT_EQ(weight.owned_bytes, 0);
    mapping.reset();
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST_F(ReferenceBackendTest, Copies) {
  const std::vector<double> source = {1, 2, 3};
  std::vector<double> device(3), moved(3), back(3);
  backend_->upload(device.data(), source.data(), 24);
  backend_->copy(moved.data(), device.data(), 24);
  backend_->download(back.data(), moved.data(), 24);
  backend_->upload(nullptr, nullptr, 0);
  backend_->synchronize();
  EXPECT_EQ(back, source);
}

TEST_F(ReferenceBackendTest, HasOneChosenRowPerOperator) {
  const std::vector<KernelInfo> rows = backend_->kernels();
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kOpKinds));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].op, static_cast<OpKind>(i));
    EXPECT_EQ(rows[i].variant, "float64");
    EXPECT_TRUE(rows[i].usable && rows[i].chosen);
  }
}

TEST_F(ReferenceBackendTest, ForcesItsOneVariantOnly) {
  EXPECT_NO_THROW(backend_->force_variant("float64"));
  EXPECT_NO_THROW(backend_->force_variant(""));
  const Error error = error_of([&] { backend_->force_variant("avx2"); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_THAT(error.what(), HasSubstr("float64"));
}

TEST_F(ReferenceBackendTest, RefusesAnOperatorOfAnotherElementType) {
  Array<float> x(Shape{2, 3}), y(Shape{2, 3});
  const Error error = error_of([&] { backend_->submit(SiluMul{x.view(), x.view(), y.view()}); });
  EXPECT_EQ(error.code(), ErrorCode::mismatch);
  EXPECT_THAT(error.what(), HasSubstr("silu_mul"));
}

TEST_F(ReferenceBackendTest, RefusesShapesThatDoNotFit) {
  Array<double> x(Shape{2, 3}), y(Shape{2, 4});
  const Error error = error_of([&] { backend_->submit(SiluMul{x.view(), x.view(), y.view()}); });
  EXPECT_EQ(error.code(), ErrorCode::mismatch);
}

}  // namespace
}  // namespace tandem::test
