#include "core/text/model_json.hpp"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/text/added_tokens.hpp"
#include "core/text/byte_level.hpp"
#include "core/text/spellings.hpp"
#include "core/text/unicode.hpp"

namespace tandem::text {
namespace {

void check_model(const JsonNode& model) {
  if (model["type"].text() != "BPE") model["type"].fail_unsupported("tokenizer model", "'BPE'");
  for (const char* key :
       {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
    if (!model[key].is_nothing()) model[key].fail_unsupported(key, "none");
  }
}

Spellings read_vocabulary(const JsonNode& vocab, Vocabulary& vocabulary) {
  Spellings spellings;
  spellings.reserve(vocab.object().size());
  for (const auto& [spelling, value] : vocab.object().items()) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= Vocabulary::kMaxTokens) {
      vocab[spelling].fail_corrupt(fmt::format("an id from 0 to {}", Vocabulary::kMaxTokens - 1));
    }
    const auto id = value.get<TokenId>();
    if (vocabulary.contains(id)) {
      fail(ErrorCode::corrupt,
           "{}: expected one token for each id, found {} and another with id {}; fetch the file again",
           vocab.where(), in_quotes(spelling), id);
    }
    // A token outside the alphabet cannot be made by merges; it stands for itself.
    vocabulary.add(id, byte_level_bytes(spelling).value_or(spelling));
    spellings.emplace(spelling, id);
  }
  return spellings;
}

/// Both forms: "a b", and since tokenizers 0.20 ["a", "b"]. Nothing for anything else.
std::pair<std::string_view, std::string_view> pair_of(const nlohmann::json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  }
  if (!merge.is_string()) return {};
  return split_merge(merge.get_ref<const std::string&>());
}

void read_merges(const JsonNode& merges, const Spellings& spellings, Bpe& bpe) {
  const nlohmann::json& list = merges.array();
  bpe.reserve_merges(list.size());
  MergeList ranked(spellings, merges.where(), bpe);
  for (const nlohmann::json& merge : list) {
    const auto [left, right] = pair_of(merge);
    if (left.empty() || right.empty())
      merges.items()[ranked.rank()].fail_corrupt("two tokens: \"a b\" or [\"a\", \"b\"]");
    ranked.add(left, right);
  }
}

void read_model(const JsonNode& model, const Spellings& spellings, Bpe& bpe) {
  set_byte_tokens(spellings, bpe);
  read_merges(model["merges"], spellings, bpe);
  const JsonNode ignore_merges = model["ignore_merges"];
  if (ignore_merges.is_null() || !ignore_merges.flag()) return;
  for (const auto& [spelling, id] : spellings) {
    if (auto bytes = byte_level_bytes(spelling)) bpe.set_whole_word(std::move(*bytes), id);
  }
}

/// An added token may be in the model's vocabulary as well, but then as the same token.
void check_agreement(const JsonNode& node, const AddedToken& token, const Spellings& spellings,
                     const TokenizerParts& parts) {
  const auto spelled = spellings.find(token.content);
  const bool same = spelled != spellings.end() && spelled->second == token.id;
  if (spelled != spellings.end() && !same) {
    fail(ErrorCode::corrupt,
         "{}: expected {} to have id {} as in the model's vocabulary, found {}; fetch the file again",
         node.where(), in_quotes(token.content), spelled->second, token.id);
  }
  if (parts.vocabulary.contains(token.id) && !same) {
    fail(ErrorCode::corrupt,
         "{}: expected an id of its own for {}, found {}, which is {} already; fetch the file again",
         node.where(), in_quotes(token.content), token.id, in_quotes(parts.vocabulary.bytes(token.id)));
  }
  if (parts.added_ids.contains(token.content)) {
    fail(ErrorCode::corrupt, "{}: expected each added token once, found {} again; fetch the file again",
         node.where(), in_quotes(token.content));
  }
}

AddedToken read_added_token(const JsonNode& node) {
  AddedToken token{.id = node["id"].index(Vocabulary::kMaxTokens),
                   .content = node["content"].text(),
                   .special = node["special"].flag(),
                   .lstrip = node["lstrip"].flag(),
                   .rstrip = node["rstrip"].flag()};
  if (token.content.empty()) node["content"].fail_corrupt("some text");
  if (node["single_word"].flag())
    node["single_word"].fail_unsupported("a token that is found as a whole word only", "false");
  return token;
}

}  // namespace

void read_tokens(const JsonNode& model, const JsonNode& added, TokenizerParts& parts) {
  check_model(model);
  const Spellings spellings = read_vocabulary(model["vocab"], parts.vocabulary);
  read_model(model, spellings, parts.bpe);
  if (added.is_null()) return;

  std::vector<AddedToken> raw, normalized;
  for (const JsonNode& node : added.items()) {
    AddedToken token = read_added_token(node);
    check_agreement(node, token, spellings, parts);
    if (!parts.vocabulary.contains(token.id)) parts.vocabulary.add(token.id, token.content);
    parts.vocabulary.replace(token.id, token.content);
    if (token.special) parts.vocabulary.mark_special(token.id);
    parts.added_ids.emplace(token.content, token.id);
    if (!node["normalized"].flag()) {
      raw.push_back(std::move(token));
    } else {
      if (parts.nfc) token.content = nfc(token.content);
      normalized.push_back(std::move(token));
    }
  }
  parts.raw_added = AddedTokens(std::move(raw));
  parts.normalized_added = AddedTokens(std::move(normalized));
}

}  // namespace tandem::text
