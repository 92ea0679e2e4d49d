#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/text/text_test_data.hpp"

namespace tandem {
namespace {

using nlohmann::json;
using text_test::expect_error;

// Patches are written as JSON text (RFC 7396: null takes a key away): nested initialisers of json are easily
// misread, by a compiler too, for which they take minutes.

std::string added_token(const char* changes) {
  json token =
      json::parse(R"({"id": 2048, "content": "<x>", "single_word": false, "lstrip": false, "rstrip": false,
                               "normalized": false, "special": false})");
  token.update(json::parse(changes));
  return token.dump();
}

std::string added(const char* changes) { return R"({"added_tokens": [)" + added_token(changes) + "]}"; }

std::string split(const char* changes) {
  json step = json::parse(
      R"({"type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": false})");
  step.merge_patch(json::parse(changes));
  return R"({"pre_tokenizer": {"pretokenizers": [)" + step.dump() +
         R"(, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]}})";
}

std::string split_by(const char* regex) {
  return split((R"({"pattern": {"Regex": )" + json(regex).dump() + "}}").c_str());
}

std::string model(const char* changes) { return std::string(R"({"model": )") + changes + "}"; }

struct BadFile {
  std::string patch;  // of tiny's tokenizer.json
  const char* part;   // of the message
};

void expect_refused(ErrorCode code, const std::vector<BadFile>& files) {
  for (const BadFile& file : files) {
    SCOPED_TRACE(file.patch);
    const std::string text = text_test::patched_tiny(json::parse(file.patch));
    expect_error(code, file.part, [&] { Tokenizer::from_json(text, "bad.json"); });
    expect_error(code, "bad.json: ", [&] { Tokenizer::from_json(text, "bad.json"); });
  }
}

TEST(Load, RefusesWhatItDoesNotDoByName) {
  expect_refused(
      ErrorCode::unsupported,
      {
          {R"({"version": "2.0"})", "key 'version': version '2.0' is not supported; known is '1.0'"},
          {model(R"({"type": "WordPiece"})"), "tokenizer model 'WordPiece' is not supported; known is 'BPE'"},
          {model(R"({"dropout": 0.1})"), "key 'model.dropout': dropout 0.1"},
          {model(R"({"unk_token": "<unk>"})"), "unk_token '<unk>'"},
          {model(R"({"byte_fallback": true})"), "byte_fallback true"},
          {model(R"({"continuing_subword_prefix": "##"})"), "continuing_subword_prefix '##'"},
          {model(R"({"end_of_word_suffix": "</w>"})"), "end_of_word_suffix '</w>'"},
          {R"({"normalizer": {"type": "Lowercase"}})", "normalizer 'Lowercase'"},
          {R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Strip"}]}})",
           "key 'normalizer.normalizers[1].type': normalizer 'Strip'"},
          {R"({"pre_tokenizer": null})", "does not end with 'ByteLevel'"},
          {R"({"pre_tokenizer": {"type": "Whitespace"}})", "does not end with 'ByteLevel'"},
          {split(R"({"type": "Digits"})"), "pre-tokenizer 'Digits'"},
          {split(R"({"behavior": "Removed"})"), "split behaviour 'Removed'"},
          {split(R"({"invert": true})"), "an inverted split"},
          {split(R"({"pattern": {"Regex": null, "String": " "}})"), "other than 'Regex'"},
          {split_by("[a&&b]"), "the class operator '&&'"},
          {split_by("[a[bc]]"), "a class inside a class"},
          {split_by("[]a]"), "a class that starts with ']'"},
          {split_by("\\w"), "uses \\w"},
          {split_by("\\p{Han}"), "a property that is no general category"},
          {split_by("a{,2}"), "a '{' that begins no {n,m}"},
          {split_by("a{1,2}?"), "a sign after {n,m}"},
          {split_by("(?i:st)"), "where case is ignored"},
          {split_by("(?m:a)"), "a group of a kind that is not known here"},
          {split_by("[a-"), "a class that does not end"},
          {split_by("^a"), "the anchor ^ or $"},
          {split_by("a$"), "the anchor ^ or $"},
          {split_by("\\h+"), "uses \\h"},
          {R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true}})", "a prefix space"},
          {R"({"post_processor": {"type": "BertProcessing"}})", "post-processor 'BertProcessing'"},
          {R"({"post_processor": {"type": "TemplateProcessing",
                                  "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]}})",
           "adds tokens"},
          {R"({"decoder": {"type": "WordPiece"}})", "decoder 'WordPiece'"},
          {R"({"decoder": null})", "a decoder of 0 steps"},
          {added(R"({"single_word": true})"), "as a whole word only"},
      });
}

TEST(Load, RefusesAFileThatContradictsItself) {
  expect_refused(
      ErrorCode::corrupt,
      {
          {R"({"model": null})", "key 'model': expected an object, found nothing"},
          {model(R"({"type": 3})"), "key 'model.type': expected a string, found 3"},
          {model(R"({"vocab": {"zz": -1}})"),
           "key 'model.vocab.zz': expected an id from 0 to 4194303, found -1"},
          {model(R"({"vocab": {"zz": 4194304}})"), "found 4194304"},
          {model(R"({"vocab": {"zz": 1.5}})"), "found 1.5"},
          {model(R"({"vocab": {"zz": "1"}})"), "found '1'"},
          {model(R"({"vocab": {"zz": 7}})"), "and another with id 7"},
          {model(R"({"vocab": []})"), "key 'model.vocab': expected an object, found a list of 0"},
          {model(R"({"merges": "t h"})"), "key 'model.merges': expected a list"},
          {model(R"({"ignore_merges": "yes"})"), "expected true or false, found 'yes'"},
          {model(R"({"merges": [["t", "h"], ["t", "qq"]]})"), "merge 1 expected 'qq' in the vocabulary"},
          {model(R"({"merges": [["q", "z"]]})"), "merge 0 expected 'qz' in the vocabulary"},
          {model(R"({"merges": ["th"]})"), "key 'model.merges[0]': expected two tokens"},
          {model(R"({"merges": ["t h e"]})"), "key 'model.merges[0]': expected two tokens"},
          {model(R"({"merges": ["t h", " h"]})"), "key 'model.merges[1]': expected two tokens"},
          {model(R"({"merges": [["t"]]})"), "expected two tokens"},
          {model(R"({"merges": [["t", 1]]})"), "expected two tokens"},
          {model(R"({"merges": [{"t": "h"}]})"), "expected two tokens"},
          {split_by("(a"), "does not compile"},
          {split_by("(a"), "does not compile"},
          {R"({"added_tokens": {"a": 1}})", "key 'added_tokens': expected a list"},
          {added(R"({"id": -5})"),
           "'added_tokens[0].id': expected a whole number from 0 to 4194303, found -5"},
          {added(R"({"id": 5000000000})"), "found 5000000000"},
          {added(R"({"content": ""})"), "expected some text"},
          {added(R"({"special": null})"), "key 'added_tokens[0].special': expected true or false"},
          {added(R"({"id": 7})"), "expected an id of its own for '<x>', found 7"},
          {added(R"({"content": "!"})"),
           "expected '!' to have id 0 as in the model's vocabulary, found 2048"},
          {R"({"added_tokens": [)" + added_token("{}") + "," + added_token(R"({"id": 2049})") + "]}",
           "found '<x>' again"},
          {R"({"normalizer": "NFC"})", "key 'normalizer': expected an object, found 'NFC'"},
      });
}

TEST(Load, AcceptsAnAddedTokenThatTheModelHasToo) {
  const json patch = json::parse(added(R"({"id": 0, "content": "!"})"));
  EXPECT_EQ(Tokenizer::from_json(text_test::patched_tiny(patch), "both").id_of("!"), 0);
}

TEST(Load, AcceptsATemplateThatAddsNothing) {
  const json patch = json::parse(R"({"post_processor": {"type": "TemplateProcessing",
                                                        "single": [{"Sequence": {"id": "A", "type_id": 0}}]}})");
  EXPECT_EQ(Tokenizer::from_json(text_test::patched_tiny(patch), "template").vocab_size(), 2048);
}

TEST(Load, RefusesTextThatIsNoJson) {
  const std::string whole = text_test::patched_tiny(json::object());
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("{\"a\": \"\xFF\"}"), whole.substr(0, whole.size() / 2),
        std::string("{\"a\": 1e999}"), std::string(100000, 'x')}) {
    expect_error(ErrorCode::corrupt, "bad.json: expected JSON, found",
                 [&] { Tokenizer::from_json(text, "bad.json"); });
  }
  expect_error(ErrorCode::corrupt, "top level: expected an object",
               [] { Tokenizer::from_json("[]", "bad.json"); });
}

TEST(Load, RefusesWhatStandsBehindTheJson) {
  const std::string whole = text_test::patched_tiny(json::object());
  EXPECT_EQ(Tokenizer::from_json(whole + "\n", "good.json").vocab_size(), 2048);
  for (const std::string& rest : {std::string(1, '\0'), std::string(1000, '\0'), std::string("\n\0x", 3)}) {
    expect_error(ErrorCode::corrupt, "bad.json: expected JSON, found a NUL at byte",
                 [&] { Tokenizer::from_json(whole + rest, "bad.json"); });
  }
  expect_error(ErrorCode::corrupt, "a syntax error", [&] { Tokenizer::from_json(whole + "{}", "bad.json"); });
}

TEST(Load, RefusesAFileThatIsTooLargeBeforeReadingIt) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("tandem-tokenizer-{}", ::getpid());
  std::ofstream(path) << "{}";
  std::filesystem::resize_file(path, std::uintmax_t{4} << 30);  // sparse
  expect_error(ErrorCode::corrupt, "expected a tokenizer.json of at most 268435456 bytes, found 4294967296",
               [&] { Tokenizer::load(path); });
  std::filesystem::remove(path);
}

TEST(Load, SurvivesDeepNesting) {
  const std::string lists = std::string(200000, '[') + std::string(200000, ']');
  expect_error(ErrorCode::corrupt, "nested more than 64 deep",
               [&] { Tokenizer::from_json(lists, "bad.json"); });
  std::string steps = "{\"type\": \"NFC\"}";
  for (int i = 0; i < 1000; ++i) steps = "{\"type\": \"Sequence\", \"normalizers\": [" + steps + "]}";
  expect_error(ErrorCode::corrupt, "nested more than 64 deep",
               [&] { Tokenizer::from_json("{\"normalizer\": " + steps + "}", "bad.json"); });
}

TEST(Load, ShowsStrangeStringsOnOneShortLine) {
  const json patch = json::parse(R"({"model": {"type": "a\nb\u001b)" + std::string(5000, 'x') + "\"}}");
  expect_error(ErrorCode::unsupported, "tokenizer model 'a\\x0ab\\x1bxxx",
               [&] { Tokenizer::from_json(text_test::patched_tiny(patch), "bad.json"); });
}

TEST(Load, SaysWhyAFileCannotBeRead) {
  expect_error(ErrorCode::not_found, "no/such/tokenizer.json: expected a tokenizer.json, found no such file",
               [] { Tokenizer::load("no/such/tokenizer.json"); });
  expect_error(ErrorCode::io, "found something that is not a file",
               [] { Tokenizer::load(text_test::tiny_path().parent_path()); });
}

}  // namespace
}  // namespace tandem
