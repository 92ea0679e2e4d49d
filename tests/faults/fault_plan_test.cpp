#include "core/fault_plan.hpp"

#include <gtest/gtest.h>

#include "core/faults.hpp"
#include "tests/graph/expect_error.hpp"

namespace tandem {
namespace {

TEST(FaultPlan, EveryFormIsReadAndWritten) {
  const std::vector<Fault> expected{
      {.kind = FaultKind::launch, .call = FaultCall::launch, .number = 12},
      {.backend = "cuda:0", .kind = FaultKind::lost, .call = FaultCall::any, .token = 7},
      {.kind = FaultKind::alloc, .call = FaultCall::alloc, .number = 3},
      {.kind = FaultKind::flip, .call = FaultCall::send, .number = 2, .byte = 100},
      {.kind = FaultKind::flip, .call = FaultCall::download, .token = 0, .byte = 1, .bit = 7},
      {.kind = FaultKind::delay, .call = FaultCall::receive, .number = 1, .milliseconds = 5},
      {.backend = "other", .kind = FaultKind::fail, .call = FaultCall::record, .token = 3},
      {.kind = FaultKind::miss, .call = FaultCall::any, .token = 4, .layer = 3},
      {.kind = FaultKind::kill, .call = FaultCall::any}};
  const std::vector<Fault> found = parse_faults(
      "launch@12,cuda:0/lost@token:7,alloc@3,flip@send:2:byte=100,flip@download:token:0:bit=7:byte=1,"
      "delay@receive:1:ms=5,other/fail@record:token:3,miss@3:4,kill@rename");
  EXPECT_EQ(found, expected);
  for (const Fault& fault : expected) EXPECT_EQ(parse_faults(to_string(fault)), std::vector{fault});
  EXPECT_EQ(to_string(expected[1]), "cuda:0/lost@token:7");
  EXPECT_EQ(to_string(expected[3]), "flip@send:2:byte=100:bit=0");
}

TEST(FaultPlan, WhatHasNoMeaningIsQuotedInOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "one of launch, alloc"},
      {"launch", "KIND@WHEN"},
      {"flop@3", "one of launch, alloc, lost"},
      {"launch@", "the number of a call as a whole number of 1"},
      {"launch@0", "found '0'"},
      {"launch@-1", "found '-1'"},
      {"launch@1x", "found '1x'"},
      {"launch@99999999999999999999", "whole number"},
      {"launch@token", "a token"},
      {"launch@token:x", "a token as a whole number"},
      {"launch@3:byte=1", "nothing like 'byte=1'"},
      {"launch@3:", "nothing like ''"},
      {"lost@token:7,", "one of launch"},
      {"/lost@1", "the name of a backend"},
      {"fail@3", "one of any, launch"},
      {"flip@copy:1", "upload, download, send or receive"},
      {"flip@send:1:bit=8", "bit as a whole number of 0 to 7"},
      {"flip@send:1:ms=8", "nothing like 'ms=8'"},
      {"delay@launch:1:ms=1", "receive or copy"},
      {"delay@send:1", "how long"},
      {"miss@3", "a token"},
      {"miss@x:3", "a layer"},
      {"cpu/miss@3:4", "no backend"},
      {"kill@write", "'rename'"},
      {"cpu/kill@rename", "no backend"},
  };
  for (const auto& [text, words] : cases) {
    expect_error(ErrorCode::invalid_argument, words, [&, text = text] { parse_faults(text); });
    expect_error(ErrorCode::invalid_argument, "fault '", [&, text = text] { parse_faults(text); });
  }
}

TEST(Faults, CallsCountFromWhenTheFaultWasArmed) {
  Faults faults(parse_faults("a/launch@2"));
  EXPECT_NO_THROW(faults.call("a", FaultCall::launch, "x"));
  EXPECT_NO_THROW(faults.call("a", FaultCall::upload, "x"));
  EXPECT_NO_THROW(faults.call("b", FaultCall::launch, "x"));
  expect_error(ErrorCode::device_lost, "a: x failed (injected: a/launch@2)",
               [&] { faults.call("a", FaultCall::launch, "x"); });
  EXPECT_NO_THROW(faults.call("a", FaultCall::launch, "x"));
  faults.arm("alloc@1");
  expect_error(ErrorCode::out_of_memory, "b: x failed", [&] { faults.call("b", FaultCall::alloc, "x"); });
  EXPECT_EQ(faults.armed(), 0u);
  EXPECT_EQ(faults.calls("a", FaultCall::launch), 3);
  EXPECT_EQ(faults.calls("a"), 4);
}

TEST(Faults, TimeIsInTokens) {
  Faults faults(parse_faults("a/lost@token:7,miss@3:9,miss@2:9,miss@3:9"));
  faults.reach(0, 7);
  EXPECT_NO_THROW(faults.call("a", FaultCall::copy, "x"));
  faults.reach(7, 8);
  EXPECT_NO_THROW(faults.call("b", FaultCall::copy, "x"));
  for (int i = 0; i < 3; ++i) {
    expect_error(ErrorCode::device_lost, "does not answer (injected: a/lost@token:7)",
                 [&] { faults.call("a", FaultCall::copy, "x"); });
  }
  EXPECT_TRUE(faults.lost("a"));
  EXPECT_FALSE(faults.lost("b"));
  EXPECT_TRUE(faults.misses(0, 9).empty());
  EXPECT_EQ(faults.misses(8, 11), (std::vector<int>{2, 3}));
  EXPECT_TRUE(faults.misses(8, 11).empty());
  faults.before_rename();  // there is no kill@rename
}

TEST(FaultsDeathTest, KillIsAKill) {
  EXPECT_EXIT(Faults(parse_faults("kill@rename")).before_rename(), testing::KilledBySignal(SIGKILL), "");
}

}  // namespace
}  // namespace tandem
