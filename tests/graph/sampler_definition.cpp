#include "tests/graph/sampler_definition.hpp"

#include <algorithm>
#include <cmath>

#include "core/numerics.hpp"
#include "core/random.hpp"

namespace tandem {
namespace {

__extension__ using Wide = unsigned __int128;

struct Token {
  TokenId id;
  float distance;
  std::uint64_t weight;
};

std::vector<float> penalised(std::span<const float> logits, const SamplingOptions& options,
                             std::span<const TokenId> history) {
  std::vector<float> result(logits.begin(), logits.end());
  if (options.repeat_last_n >= 0 && std::ssize(history) > options.repeat_last_n)
    history = history.last(static_cast<std::size_t>(options.repeat_last_n));
  for (std::size_t id = 0; id < result.size(); ++id) {
    const auto count = std::count(history.begin(), history.end(), static_cast<TokenId>(id));
    if (count == 0) continue;
    float& x = result[id];
    const auto repeat = static_cast<float>(options.repeat_penalty);
    x = x > 0 ? x / repeat : x * repeat;
    const float frequent = static_cast<float>(count) * static_cast<float>(options.frequency_penalty);
    x = x - (frequent + static_cast<float>(options.presence_penalty));
  }
  return result;
}

std::uint64_t sum_of(const std::vector<Token>& tokens) {
  std::uint64_t sum = 0;
  for (const Token& token : tokens) sum += token.weight;
  return sum;
}

void keep_top_p(std::vector<Token>& tokens, double top_p) {
  const auto p = static_cast<std::uint64_t>(std::floor(top_p * 0x1p53));
  const Wide product = Wide{p} * sum_of(tokens), one = Wide{1} << 53;
  const auto need = static_cast<std::uint64_t>(product / one + (product % one != 0 ? 1 : 0));
  std::uint64_t sum = 0;
  std::size_t kept = 0;
  while (kept == 0 || sum < need) sum += tokens[kept++].weight;
  tokens.resize(kept);
}

}  // namespace

Choice choose_by_definition(std::span<const float> given, const SamplingOptions& options,
                            std::int64_t position, std::span<const TokenId> history) {
  const std::vector<float> logits = penalised(given, options, history);
  const auto highest = std::max_element(logits.begin(), logits.end());
  const auto temperature = static_cast<float>(options.temperature);
  if (temperature == 0) return {.id = static_cast<TokenId>(highest - logits.begin()), .probability = 1};
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float d = logits[i] == *highest ? 0.0f : (*highest - logits[i]) / temperature;
    const double weight = std::nearbyint(static_cast<double>(num::exp(-d)) * 0x1p40);
    tokens.push_back({static_cast<TokenId>(i), d, static_cast<std::uint64_t>(weight)});
  }
  std::ranges::stable_sort(tokens, {}, &Token::distance);
  if (options.top_k > 0 && options.top_k < std::ssize(tokens))
    tokens.resize(static_cast<std::size_t>(options.top_k));
  if (options.top_p < 1) keep_top_p(tokens, options.top_p);
  const auto least = static_cast<std::uint64_t>(std::ceil(options.min_p * 0x1p40));
  std::erase_if(tokens, [&](const Token& token) { return token.weight < least; });
  std::ranges::sort(tokens, {}, &Token::id);
  const std::uint64_t total = sum_of(tokens);
  const std::uint64_t random =
      CounterRandom("sample", options.seed).bits(static_cast<std::uint64_t>(position));
  const auto target = static_cast<std::uint64_t>((Wide{random} * total) >> 64);
  std::uint64_t sum = 0;
  for (const Token& token : tokens) {
    sum += token.weight;
    if (sum > target)
      return {.id = token.id, .probability = static_cast<double>(token.weight) / static_cast<double>(total)};
  }
  return {.id = -1, .probability = 0};  // cannot be
}

}  // namespace tandem
