#include "core/error.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tandem {
namespace {

TEST(Error, CarriesCodeAndMessage) {
  try {
    fail(ErrorCode::not_resident, "layer {}: expected {}, found {}", 3, "cpu", "cuda:0");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_resident);
    EXPECT_STREQ(error.what(), "layer 3: expected cpu, found cuda:0");
  }
}

TEST(Error, IsAnOrdinaryException) { EXPECT_THROW(fail(ErrorCode::io, "no"), std::runtime_error); }

TEST(Error, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  const int last = static_cast<int>(ErrorCode::interrupted);
  for (int code = 0; code <= last; ++code) names.insert(name(static_cast<ErrorCode>(code)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(last) + 1);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(name(ErrorCode::invalid_argument), "invalid_argument");
  EXPECT_EQ(name(ErrorCode::out_of_memory), "out_of_memory");
}

}  // namespace
}  // namespace tandem
