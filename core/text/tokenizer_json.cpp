#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/text/json_node.hpp"
#include "core/text/model_json.hpp"
#include "core/text/tokenizer_parts.hpp"

namespace tandem::text {
namespace {

/// What a "ByteLevel" pre-tokenizer splits by when it is not told otherwise: GPT-2's pattern.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// The steps of a part of the pipeline: none for null, else those of its "Sequence"s, in order, or itself
/// alone.
void append_steps(const JsonNode& node, const char* members, std::vector<JsonNode>& steps) {
  if (node.is_null()) return;
  if (node["type"].text() != "Sequence") {
    steps.push_back(node);
    return;
  }
  for (const JsonNode& item : node[members].items()) append_steps(item, members, steps);
}

std::vector<JsonNode> steps_of(const JsonNode& node, const char* members) {
  std::vector<JsonNode> steps;
  append_steps(node, members, steps);
  return steps;
}

bool reads_nfc(const JsonNode& normalizer) {
  const auto steps = steps_of(normalizer, "normalizers");
  for (const JsonNode& step : steps) {
    if (step["type"].text() != "NFC") step["type"].fail_unsupported("normalizer", "NFC");
  }
  return !steps.empty();
}

SplitPattern read_split(const JsonNode& split) {
  const JsonNode pattern = split["pattern"]["Regex"];
  if (pattern.is_null()) {
    fail(ErrorCode::unsupported,
         "{}: a split pattern other than 'Regex' is not supported; write it as a regular expression",
         split.where());
  }
  if (split["behavior"].text() != "Isolated")
    split["behavior"].fail_unsupported("split behaviour", "'Isolated'");
  if (split["invert"].flag()) split["invert"].fail_unsupported("an inverted split", "false");
  return {pattern.text(), pattern.where()};
}

/// Flags that an older file leaves out are on.
bool flag_or_true(const JsonNode& node) { return node.is_null() || node.flag(); }

std::vector<SplitPattern> read_patterns(const JsonNode& pre_tokenizer) {
  const auto steps = steps_of(pre_tokenizer, "pretokenizers");
  if (steps.empty() || steps.back()["type"].text() != "ByteLevel") {
    fail(ErrorCode::unsupported,
         "{}: a pre-tokenizer that does not end with 'ByteLevel' is not supported; known is "
         "byte-level BPE",
         pre_tokenizer.where());
  }
  std::vector<SplitPattern> patterns;
  for (const JsonNode& step : steps) {
    const bool last = &step == &steps.back();
    if (!last && step["type"].text() != "Split")
      step["type"].fail_unsupported("pre-tokenizer", "'Split', then 'ByteLevel'");
    if (!last) patterns.push_back(read_split(step));
  }
  const JsonNode& byte_level = steps.back();
  const JsonNode prefix_space = byte_level["add_prefix_space"];
  if (flag_or_true(prefix_space)) prefix_space.fail_unsupported("a prefix space", "false");
  const JsonNode use_regex = byte_level["use_regex"];
  if (flag_or_true(use_regex)) patterns.emplace_back(kGpt2Pattern, use_regex.where());
  return patterns;
}

/// A template adds nothing if it holds nothing but the text itself.
void check_template(const JsonNode& processor) {
  for (const JsonNode& piece : processor["single"].items()) {
    if (piece["Sequence"].is_null()) {
      fail(ErrorCode::unsupported,
           "{}: a template that adds tokens is not supported; known is one of the text alone", piece.where());
    }
  }
}

void check_post_processor(const JsonNode& post_processor) {
  for (const JsonNode& step : steps_of(post_processor, "processors")) {
    const std::string type(step["type"].text());
    if (type == "TemplateProcessing") {
      check_template(step);
    } else if (type != "ByteLevel") {  // which moves the offsets of tokens in the text: not kept here
      step["type"].fail_unsupported("post-processor",
                                    "'ByteLevel' and a 'TemplateProcessing' that adds nothing");
    }
  }
}

void check_decoder(const JsonNode& decoder) {
  const auto steps = steps_of(decoder, "decoders");
  if (steps.size() != 1) {
    fail(ErrorCode::unsupported, "{}: a decoder of {} steps is not supported; known is 'ByteLevel'",
         decoder.where(), steps.size());
  }
  if (steps[0]["type"].text() != "ByteLevel") steps[0]["type"].fail_unsupported("decoder", "'ByteLevel'");
}

}  // namespace

TokenizerParts read_tokenizer_json(std::string_view json, std::string_view where) {
  const nlohmann::json document = parse_json(json, where);
  const JsonNode root(document, where);
  const JsonNode version = root["version"];
  if (!version.is_null() && version.text() != "1.0") version.fail_unsupported("version", "'1.0'");

  TokenizerParts parts;
  parts.where = where;
  parts.nfc = reads_nfc(root["normalizer"]);
  parts.patterns = read_patterns(root["pre_tokenizer"]);
  check_post_processor(root["post_processor"]);
  check_decoder(root["decoder"]);
  read_tokens(root["model"], root["added_tokens"], parts);
  return parts;
}

}  // namespace tandem::text
