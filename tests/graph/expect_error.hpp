#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/error.hpp"

namespace tandem {

/// Expects an Error with this code whose message holds `words`.
template <class Body>
void expect_error(ErrorCode code, const std::string& words, const Body& body) {
  try {
    body();
    ADD_FAILURE() << "expected an error with: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(name(error.code()), name(code)) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(words));
  }
}

}  // namespace tandem
