#include "core/io/json.hpp"

#include <nlohmann/json.hpp>

#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

using test::expect_error;

void expect_corrupt_json(std::string_view text, std::initializer_list<const char*> parts) {
  expect_error([&] { parse_json(text, "f.json"); }, ErrorCode::corrupt, parts);
}

std::string nested(int depth) {
  const auto n = static_cast<std::size_t>(depth);
  return std::string(n, '[') + std::string(n, ']');
}

TEST(Json, ReadsWhatIsWritten) {
  const Json json = parse_json(R"({"a": [1, 2.5, "x\"[[[", null], "b": {"c": true}})", "f.json");
  EXPECT_EQ(json["a"][2], "x\"[[[");
  EXPECT_EQ(json["b"]["c"], true);
}

TEST(Json, NamesFileAndPositionOfAnError) {
  expect_corrupt_json("", {"f.json", "not valid JSON at byte 1"});
  expect_corrupt_json(R"({"a": })", {"f.json", "at byte 7", "unexpected '}'"});
  expect_corrupt_json("{\"a\": \n\n nonsense\n}", {"f.json", "at byte 11", "invalid literal"});
  expect_corrupt_json("{} {}", {"at byte 4", "expected end of input"});
  expect_corrupt_json("{\"a\": \"\xff\"}", {"at byte 8", "UTF-8"});
  expect_corrupt_json("[1e999]", {"f.json", "number overflow"});
  expect_corrupt_json("[NaN]", {"f.json", "at byte 2"});
  expect_corrupt_json(std::string_view("{}\0}", 4), {"f.json", "at byte 3", "NUL"});
}

TEST(Json, KeepsMessagesShort) {
  try {
    parse_json("\"" + std::string(100'000, 'x'), "f.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_LT(std::string_view(error.what()).size(), 300u);
  }
}

TEST(Json, LimitsDepth) {
  EXPECT_NO_THROW(parse_json(nested(kMaxJsonDepth), "f.json"));
  expect_corrupt_json(nested(kMaxJsonDepth + 1), {"f.json", "nested deeper than 64", "at byte 65"});
  expect_corrupt_json(nested(1'000'000), {"nested deeper"});
  expect_corrupt_json(std::string(1'000'000, '['), {"nested deeper"});
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  expect_corrupt_json(objects, {"nested deeper"});
  // Brackets in strings and siblings do not count.
  EXPECT_NO_THROW(
      parse_json("[\"" + std::string(1000, '[') + "\", \"\\\"" + std::string(1000, '{') + "\"]", "f"));
  std::string siblings = "[";
  for (int i = 0; i < 1000; ++i) siblings += "[],";
  EXPECT_NO_THROW(parse_json(siblings + "[]]", "f.json"));
}

TEST(Json, ReadsFiles) {
  const test::TempDir dir;
  EXPECT_EQ(read_json_file(dir.write("a.json", "[1]"), 3)[0], 1);
  expect_error([&] { read_json_file(dir.path() / "a.json", 2); }, ErrorCode::invalid_argument,
               {"a.json", "3 bytes"});
  expect_error([&] { read_json_file(dir.write("b.json", "["), 9); }, ErrorCode::corrupt,
               {"b.json", "at byte 2"});
}

class JsonReaders : public testing::Test {
 protected:
  const Json json_ = parse_json(R"({"int": 7, "negative": -7, "fraction": 7.5, "whole": 7.0, "exponent": 1e3,
    "huge": 18446744073709551615, "text": "7", "flag": true, "nothing": null, "list": [1, 2], "object": {"a": 1},
    "mixed": [1, "2"]})",
                                "f");

  void expect_no_int(const char* key, std::initializer_list<const char*> parts) {
    expect_error([&] { required_int(json_, key, 1, 10, "f"); }, ErrorCode::invalid_argument, parts);
  }
};

TEST_F(JsonReaders, Integers) {
  EXPECT_EQ(required_int(json_, "int", 7, 7, "f"), 7);
  EXPECT_EQ(required_int(json_, "negative", -7, 0, "f"), -7);
  expect_no_int("negative", {"f: negative: expected an integer of 1 to 10, found -7"});
  expect_no_int("fraction", {"f: fraction: expected an integer of 1 to 10, found 7.5"});
  expect_no_int("whole", {"found 7.0"});
  expect_no_int("exponent", {"found 1000.0"});
  expect_no_int("huge", {"found 18446744073709551615"});
  expect_no_int("text", {"found \"7\""});
  expect_no_int("flag", {"found true"});
  expect_no_int("list", {"found an array of 2"});
  expect_no_int("object", {"found an object of 1"});
  expect_no_int("nothing", {"f: nothing is missing, expected an integer of 1 to 10"});
  expect_no_int("absent", {"f: absent is missing"});
  expect_error([&] { required_int(json_, "int", 8, 10, "f"); }, ErrorCode::invalid_argument, {"found 7"});
  expect_error([&] { required_int(json_, "int", 1, 6, "f"); }, ErrorCode::invalid_argument, {"found 7"});
}

TEST_F(JsonReaders, OptionalValues) {
  EXPECT_EQ(optional_int(json_, "int", 1, 10, "f"), 7);
  EXPECT_EQ(optional_int(json_, "absent", 1, 10, "f"), std::nullopt);
  EXPECT_EQ(optional_int(json_, "nothing", 1, 10, "f"), std::nullopt);
  EXPECT_EQ(optional_double(json_, "int", "f"), 7.0);
  EXPECT_EQ(optional_double(json_, "fraction", "f"), 7.5);
  EXPECT_EQ(optional_double(json_, "nothing", "f"), std::nullopt);
  EXPECT_EQ(optional_bool(json_, "flag", "f"), true);
  EXPECT_EQ(optional_bool(json_, "absent", "f"), std::nullopt);
  EXPECT_EQ(optional_string(json_, "text", "f"), "7");
  EXPECT_EQ(optional_string(json_, "absent", "f"), std::nullopt);
  EXPECT_EQ(required_string(json_, "text", "f"), "7");
  EXPECT_EQ(find_object(json_, "nothing", "f"), nullptr);
  EXPECT_EQ(find_object(json_, "object", "f")->size(), 1u);
}

TEST_F(JsonReaders, OneIntegerOrSeveral) {
  using Ints = std::vector<std::int64_t>;
  EXPECT_EQ(optional_ints(json_, "int", 0, 9, "f"), Ints{7});
  EXPECT_EQ(optional_ints(json_, "list", 0, 9, "f"), (Ints{1, 2}));
  EXPECT_EQ(optional_ints(json_, "absent", 0, 9, "f"), std::nullopt);
  expect_error([&] { optional_ints(json_, "mixed", 0, 9, "f"); }, ErrorCode::invalid_argument,
               {"mixed", "\"2\""});
  expect_error([&] { optional_ints(json_, "list", 0, 1, "f"); }, ErrorCode::invalid_argument,
               {"list", "found 2"});
}

TEST_F(JsonReaders, RefuseOtherTypes) {
  const auto code = ErrorCode::invalid_argument;
  expect_error([&] { optional_double(json_, "text", "f"); }, code,
               {"f: text: expected a number, found \"7\""});
  expect_error([&] { optional_bool(json_, "int", "f"); }, code, {"f: int: expected true or false, found 7"});
  expect_error([&] { optional_string(json_, "int", "f"); }, code, {"f: int: expected a string, found 7"});
  expect_error([&] { required_string(json_, "nothing", "f"); }, code,
               {"f: nothing is missing, expected a string"});
  expect_error([&] { find_object(json_, "list", "f"); }, code,
               {"f: list: expected an object, found an array of 2"});
  expect_error([&] { find_member(json_["list"], "a", "f"); }, code,
               {"f: expected an object with a, found an array"});
}

TEST(Quote, EscapesAndShortens) {
  EXPECT_EQ(quote("plain"), "\"plain\"");
  EXPECT_EQ(quote("a\nb\"c"), R"("a\nb\"c")");
  EXPECT_EQ(quote(std::string(5000, 'x')), "\"" + std::string(100, 'x') + "\"...");
  EXPECT_EQ(quote("\xff"), "\"\xEF\xBF\xBD\"");
  // The hundredth byte is the first half of a character.
  EXPECT_EQ(quote(std::string(99, 'x') + "\xC3\xA9"), "\"" + std::string(99, 'x') + "\xEF\xBF\xBD\"...");
}

}  // namespace
}  // namespace tandem
