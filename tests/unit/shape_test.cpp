#include "core/shape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/error.hpp"

namespace tandem {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

template <class Call>
void expect_refused(ErrorCode code, const char* text, const Call& call) {
  try {
    call();
    FAIL() << "not refused; expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_THAT(error.what(), testing::HasSubstr(text));
  }
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{3, 4, 5}).elements(), 60);
  EXPECT_EQ((Shape{3, 4, 5}).elements_from(1), 20);
  EXPECT_EQ((Shape{3, 4, 5}).elements_from(3), 1);
  EXPECT_EQ((Shape{3, 0}).elements(), 0);
}

TEST(Shape, ComparesByRankAndSizes) {
  EXPECT_EQ((Shape{3, 4}), (Shape{3, 4}));
  EXPECT_NE((Shape{3, 4}), (Shape{4, 3}));
  EXPECT_NE((Shape{3}), (Shape{3, 0})) << "unused sizes are zero, but the rank differs";
}

TEST(Shape, FromDataRefusesTooManySizes) {
  const std::int64_t sizes[] = {1, 2, 3, 4, 5};
  EXPECT_EQ(Shape::from(std::span(sizes, 4)), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(Shape::from({}), Shape());
  expect_refused(ErrorCode::unsupported, "a tensor of 5 dimensions", [&] { Shape::from(sizes); });
}

TEST(Shape, IsPrintedInBrackets) {
  EXPECT_EQ(to_string(Shape()), "[]");
  EXPECT_EQ(to_string(Shape{3, 4}), "[3, 4]");
}

TEST(Shape, CheckedProductsStopAt63Bits) {
  EXPECT_EQ(checked_mul(0, kMost, "n"), 0);
  EXPECT_EQ(checked_mul(1, kMost, "n"), kMost);
  EXPECT_EQ(checked_mul(kMost / 2, 2, "n"), kMost - 1);
  expect_refused(ErrorCode::invalid_argument, "weight: 4294967296 * 2147483648",
                 [] { checked_mul(std::int64_t{1} << 32, std::int64_t{1} << 31, "weight"); });
  expect_refused(ErrorCode::invalid_argument, "n: -1 * 3", [] { checked_mul(-1, 3, "n"); });
  expect_refused(ErrorCode::invalid_argument, "n: 3 * -1", [] { checked_mul(3, -1, "n"); });
  expect_refused(ErrorCode::invalid_argument, "n: -2 * -3", [] { checked_mul(-2, -3, "n"); });
}

TEST(Shape, CheckedSumsStopAt63Bits) {
  EXPECT_EQ(checked_add(kMost - 1, 1, "n"), kMost);
  expect_refused(ErrorCode::invalid_argument, "offset: 9223372036854775807 + 1",
                 [] { checked_add(kMost, 1, "offset"); });
  expect_refused(ErrorCode::invalid_argument, "n: -1 + 3", [] { checked_add(-1, 3, "n"); });
}

TEST(Shape, CheckedElementsRefuseWhatOverflows) {
  EXPECT_EQ(checked_elements(Shape{3, 4, 5}, "n"), 60);
  EXPECT_EQ(checked_elements(Shape(), "n"), 1);
  const std::int64_t large = std::int64_t{1} << 22;
  expect_refused(ErrorCode::invalid_argument, "table", [&] {
    checked_elements(Shape{large, large, large}, "table");
  });
  expect_refused(ErrorCode::invalid_argument, "table", [] { checked_elements(Shape{3, -4}, "table"); });
}

TEST(HumanBytes, TakesTheLargestUnitThatFits) {
  EXPECT_EQ(human_bytes(0), "0 bytes");
  EXPECT_EQ(human_bytes(1023), "1023 bytes");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(std::uint64_t{3} << 30), "3.00 GiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<std::uint64_t>::max()), "16.00 EiB");
}

}  // namespace
}  // namespace tandem
