#include "core/tensor.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tandem {
namespace {

class TensorTest : public testing::Test {
 protected:
  TensorTest() { std::iota(values_.begin(), values_.end(), 0.0f); }

  std::vector<float> values_ = std::vector<float>(60);
  Tensor matrix_{values_.data(), DType::f32, Shape{5, 12}};
};

TEST_F(TensorTest, RowsFollowEachOtherUnlessToldOtherwise) {
  EXPECT_EQ(matrix_.row_stride, 12);
  EXPECT_EQ(matrix_.rows(), 5);
  EXPECT_EQ(matrix_.row_elements(), 12);
  EXPECT_TRUE(matrix_.contiguous());
  EXPECT_EQ(matrix_.bytes(), 240);
  EXPECT_EQ(*matrix_.row<float>(2), 24.0f);
}

TEST_F(TensorTest, SlicesRows) {
  const Tensor rows = matrix_.slice_rows(1, 3);
  EXPECT_EQ(rows.shape, (Shape{3, 12}));
  EXPECT_EQ(*rows.row<float>(0), 12.0f);
  EXPECT_EQ(*rows.row<float>(2), 36.0f);
}

TEST_F(TensorTest, ColumnsKeepTheStride) {
  const Tensor columns = matrix_.columns(4, 6);
  EXPECT_EQ(columns.shape, (Shape{5, 6}));
  EXPECT_EQ(columns.row_stride, 12);
  EXPECT_FALSE(columns.contiguous());
  EXPECT_EQ(columns.row<float>(3)[5], 36.0f + 9.0f);
  EXPECT_EQ(columns.bytes(), 5 * 6 * 4) << "gaps are not counted";
}

TEST_F(TensorTest, ColumnsOfASliceAsHeads) {
  const Tensor heads = matrix_.slice_rows(2, 2).columns(6, 6).view_rows(2, 3);
  EXPECT_EQ(heads.shape, (Shape{2, 2, 3}));
  EXPECT_EQ(heads.row_stride, 12);
  EXPECT_EQ(heads.row<float>(1)[3], 36.0f + 9.0f);
}

TEST_F(TensorTest, OneRowIsContiguousWhateverItsStride) {
  EXPECT_TRUE(matrix_.slice_rows(0, 1).columns(0, 3).contiguous());
  EXPECT_FALSE(matrix_.slice_rows(0, 2).columns(0, 3).contiguous());
}

TEST_F(TensorTest, AMutableViewMayBeRead) {
  const ConstTensor view = matrix_.columns(1, 2);
  EXPECT_EQ(view.row_stride, 12);
  EXPECT_EQ(view.row<float>(1)[1], 14.0f);
}

TEST(Tensor, AnAbsentOneIsFalse) {
  EXPECT_FALSE(ConstTensor());
  EXPECT_TRUE(ConstTensor(nullptr, DType::f32, Shape{0}));
  EXPECT_TRUE(ConstTensor().contiguous());
}

TEST(Tensor, ASymbolicOneStaysWithoutMemory) {
  const Tensor symbolic(nullptr, DType::f32, Shape{5, 12});
  EXPECT_EQ(symbolic.slice_rows(2, 1).data, nullptr);
  EXPECT_EQ(symbolic.columns(2, 1).data, nullptr);
}

TEST(Tensor, OffsetsCountElementsOfTheType) {
  std::vector<std::uint16_t> values(12);
  const Tensor t(values.data(), DType::bf16, Shape{3, 4});
  EXPECT_EQ(t.slice_rows(1, 1).data, values.data() + 4);
  EXPECT_EQ(t.columns(3, 1).data, values.data() + 3);
  EXPECT_EQ(t.bytes(), 24);
}

TEST(Tensor, SizesOfTypes) {
  EXPECT_EQ(size_of(DType::f32), 4u);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_EQ(size_of(DType::f16), 2u);
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::i32), 4u);
  EXPECT_EQ(dtype_of<float>::value, DType::f32);
  EXPECT_EQ(dtype_of<bf16>::value, DType::bf16);
}

}  // namespace
}  // namespace tandem
