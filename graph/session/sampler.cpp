#include "graph/session/sampler.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/float_environment.hpp"
#include "core/numerics.hpp"
#include "core/numerics64.hpp"
#include "core/random.hpp"
#include "graph/session/sampler_kernels.hpp"

namespace tandem {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
constexpr std::size_t kMostLogits = std::size_t{1} << 23;  // so many weights of 2^40 have a sum in 64 bits
constexpr std::size_t kFew = 48;                           // are sorted rather than counted
constexpr int kDigitBits = 12;

const SamplerKernels& kernels() { return usable_sampler_kernels().front(); }

void require(bool ok, std::string_view option, std::string_view expected, auto found) {
  if (!ok) fail(ErrorCode::invalid_argument, "{}: expected {}, got {}", option, expected, found);
}

/// The highest logit. Throws for a NaN.
float highest_number(std::span<const float> logits) {
  const float top = kernels().highest(logits.data(), logits.size());
  if (std::isnan(top)) {
    const auto nan = std::find_if(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
    fail(ErrorCode::corrupt, "the logit of token {} is not a number: the weights or the state are damaged",
         nan - logits.begin());
  }
  return top;
}

/// A token as one number, in the order in which filters keep tokens: distances are not negative, so their
/// bits have their order.
std::uint64_t item(float distance, std::size_t index) {
  return std::uint64_t{std::bit_cast<std::uint32_t>(distance)} << 32 | index;
}
std::size_t index_of(std::uint64_t item) { return item & 0xffffffffu; }

/// Makes room without clearing what is there already.
template <class T>
void grow(std::vector<T>& room, std::size_t size) {
  if (room.size() < size) room.resize(size);
}

/// The item at which the weights of it and of all smaller ones reach `need`. Sums weights by the leading bits
/// of the items, goes on with those of one sum, and sorts when few are left.
/// REQUIRES: different items, whose weights reach `need`, which is at least 1.
template <class Weight>
std::uint64_t select(std::span<const std::uint64_t> items, std::vector<std::uint64_t>& scratch,
                     std::uint64_t need, Weight weight) {
  grow(scratch, std::max(items.size(), kFew));
  if (items.size() <= kFew) std::copy(items.begin(), items.end(), scratch.begin());
  while (items.size() > kFew) {
    std::uint64_t first = kNoLimit, last = 0;
    for (const std::uint64_t one : items) {
      first = std::min(first, one);
      last = std::max(last, one);
    }
    const int shift = std::max(0, static_cast<int>(std::bit_width(last - first)) - kDigitBits);
    std::array<std::uint64_t, std::size_t{1} << kDigitBits> sums{};
    for (const std::uint64_t one : items) sums[(one - first) >> shift] += weight(one);
    std::uint64_t digit = 0;
    while (sums[digit] < need) need -= sums[digit++];
    std::size_t count = 0;
    for (const std::uint64_t one : items) {  // without a branch that nobody could predict, as below
      scratch[count] = one;                  // may overwrite what was read
      count += (one - first) >> shift == digit ? 1 : 0;
    }
    items = std::span(scratch).first(count);
  }
  const std::span<std::uint64_t> few = std::span(scratch).first(items.size());
  std::sort(few.begin(), few.end());
  for (const std::uint64_t one : few) {
    const std::uint64_t here = weight(one);
    if (here >= need) return one;
    need -= here;
  }
  return few.back();
}

std::uint64_t scaled(std::uint64_t random, std::uint64_t total) {
  return static_cast<std::uint64_t>((Wide{random} * total) >> 64);
}

std::uint64_t needed_of(std::uint64_t sum, double top_p) {
  const auto p = static_cast<std::uint64_t>(top_p * 0x1p53);
  const Wide need = (Wide{p} * sum + ((std::uint64_t{1} << 53) - 1)) >> 53;
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(need));
}

double share(std::uint64_t weight, std::uint64_t total) {
  return static_cast<double>(weight) / static_cast<double>(total);
}

}  // namespace

void require_numbers(std::span<const float> logits) {
  if (!logits.empty()) static_cast<void>(highest_number(logits));
}

void validate(const SamplingOptions& options) {
  constexpr double kMost = 1e6;  // products with logits stay numbers
  require(options.temperature >= 0 && std::isfinite(options.temperature), "temperature", "a number >= 0",
          options.temperature);
  require(options.top_k >= 0, "top-k", "0 (no limit) or more", options.top_k);
  require(options.top_p > 0 && options.top_p <= 1, "top-p", "a number above 0 and up to 1", options.top_p);
  require(options.min_p >= 0 && options.min_p <= 1, "min-p", "a number from 0 to 1", options.min_p);
  require(options.repeat_penalty >= 1 / kMost && options.repeat_penalty <= kMost, "repeat-penalty",
          "a number from 1e-6 to 1e6 (1: none)", options.repeat_penalty);
  require(std::abs(options.presence_penalty) <= kMost, "presence-penalty",
          "a number from -1e6 to 1e6 (0: none)", options.presence_penalty);
  require(std::abs(options.frequency_penalty) <= kMost, "frequency-penalty",
          "a number from -1e6 to 1e6 (0: none)", options.frequency_penalty);
  require(options.repeat_last_n >= -1, "repeat-last-n", "-1 (all tokens), 0 (none) or more",
          options.repeat_last_n);
}

std::int64_t penalty_window(const SamplingOptions& options, std::int64_t tokens) {
  if (options.repeat_penalty == 1 && options.presence_penalty == 0 && options.frequency_penalty == 0)
    return 0;
  return options.repeat_last_n < 0 ? tokens : std::min(options.repeat_last_n, tokens);
}

double log_sum_exp(std::span<const float> logits) {
  const FloatEnvironment environment;
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += exp64(static_cast<double>(logit) - highest);
  return log64(sum) + highest;
}

TokenId choose_greedily(std::span<const float> logits) {
  const FloatEnvironment environment;
  const float top = highest_number(logits);
  return static_cast<TokenId>(std::find(logits.begin(), logits.end(), top) - logits.begin());
}

Choice Sampler::choose(std::span<const float> logits, const SamplingOptions& options, std::int64_t position,
                       std::span<const TokenId> history) {
  const FloatEnvironment environment;
  if (logits.empty() || logits.size() > kMostLogits) {
    fail(ErrorCode::invalid_argument, "sampler: expected 1 to {} logits, got {}", kMostLogits, logits.size());
  }
  logits = penalised(logits, options, history);
  const auto temperature = static_cast<float>(options.temperature);
  if (temperature == 0) return {.id = choose_greedily(logits), .probability = 1};
  const float top = highest_number(logits);
  std::size_t size = logits.size();
  grow(distances_, size);
  grow(nearest_, sampler_blocks(size));
  kernels().distances(logits.data(), size, top, temperature, distances_.data(), nearest_.data());
  const bool limited = options.top_k > 0 && static_cast<std::uint64_t>(options.top_k) < size;
  if (limited) size = keep_top_k(size, static_cast<std::uint64_t>(options.top_k));
  grow(weights_, size);
  grow(sums_, sampler_blocks(size));
  kernels().weigh(distances_.data(), size, weights_.data(), sums_.data());
  std::uint64_t sum = 0;
  for (std::size_t block = 0; block < sampler_blocks(size); ++block) sum += sums_[block];
  Choice choice = draw(size, options, position, sum);
  if (limited) choice.id = ids_[static_cast<std::size_t>(choice.id)];
  return choice;
}

/// top_p, min_p and the draw, for weights_; the id is an index of them.
Choice Sampler::draw(std::size_t size, const SamplingOptions& options, std::int64_t position,
                     std::uint64_t sum) {
  const std::uint64_t random =
      CounterRandom("sample", options.seed).bits(static_cast<std::uint64_t>(position));
  const auto least = static_cast<std::uint64_t>(std::ceil(options.min_p * 0x1p40));
  if (options.top_p < 1) {
    const std::uint64_t need = needed_of(sum, options.top_p);
    // What top_p drops weighs at most `sum - need`, so no token of less than an equal share of it is kept;
    // half of that, as weights may be out of order by a rounding.
    const double dropped = static_cast<double>(sum - need) * 0x1p-40;
    const std::span<const std::uint64_t> items =
        collect(size, static_cast<float>(dropped / static_cast<double>(size) * 0.5));
    const std::uint64_t last = select(
        items, scratch_, need, [&](std::uint64_t one) { return whole_weight(weights_[index_of(one)]); });
    return draw_collected(items, random, last, least);
  }
  if (options.min_p > 0)
    return draw_collected(collect(size, static_cast<float>(options.min_p * 0.5)), random, kNoLimit, least);
  return draw_any(size, random, sum);
}

std::span<const float> Sampler::penalised(std::span<const float> logits, const SamplingOptions& options,
                                          std::span<const TokenId> history) {
  const auto window = static_cast<std::size_t>(penalty_window(options, std::ssize(history)));
  if (window == 0) return logits;
  history = history.last(window);
  for (const TokenId id : history) {
    if (id < 0 || static_cast<std::size_t>(id) >= logits.size()) {
      fail(ErrorCode::invalid_argument, "sampler: token {} of the history is outside of the vocabulary of {}",
           id, logits.size());
    }
  }
  adjusted_.assign(logits.begin(), logits.end());
  counts_.resize(logits.size());
  for (const TokenId id : history) ++counts_[static_cast<std::size_t>(id)];
  const auto repeat = static_cast<float>(options.repeat_penalty);
  const auto presence = static_cast<float>(options.presence_penalty);
  const auto frequency = static_cast<float>(options.frequency_penalty);
  for (const TokenId id : history) {
    std::int32_t& count = counts_[static_cast<std::size_t>(id)];
    if (count == 0) continue;  // done already
    float& x = adjusted_[static_cast<std::size_t>(id)];
    x = x > 0 ? x / repeat : x * repeat;
    x -= static_cast<float>(count) * frequency + presence;
    count = 0;
  }
  return adjusted_;
}

/// The last item that top_k keeps. Of the blocks' nearest tokens, top_k are as near as the top_k-th of them,
/// so blocks that begin farther away hold none that is kept.
std::uint64_t Sampler::last_of_top_k(std::size_t size, std::uint64_t top_k) {
  float limit = std::numeric_limits<float>::infinity();
  if (const std::size_t blocks = sampler_blocks(size); top_k <= blocks) {
    ordered_.assign(nearest_.begin(), nearest_.begin() + static_cast<std::ptrdiff_t>(blocks));
    const auto kth = ordered_.begin() + static_cast<std::ptrdiff_t>(top_k) - 1;
    std::nth_element(ordered_.begin(), kth, ordered_.end());
    limit = *kth;
  }
  grow(items_, size);
  std::size_t count = 0;
  for (std::size_t begin = 0; begin < size; begin += kSamplerBlock) {
    if (nearest_[begin / kSamplerBlock] > limit) continue;
    const std::size_t end = std::min(begin + kSamplerBlock, size);
    for (std::size_t i = begin; i < end; ++i) {
      items_[count] = item(distances_[i], i);
      count += distances_[i] <= limit ? 1 : 0;
    }
  }
  return select(std::span(items_).first(count), scratch_, top_k,
                [](std::uint64_t) { return std::uint64_t{1}; });
}

/// Leaves in distances_ and ids_ the tokens that top_k keeps, by id; returns how many.
std::size_t Sampler::keep_top_k(std::size_t size, std::uint64_t top_k) {
  const std::uint64_t last = last_of_top_k(size, top_k);
  const float farthest = std::bit_cast<float>(static_cast<std::uint32_t>(last >> 32));
  grow(ids_, size);
  std::size_t count = 0;
  for (std::size_t begin = 0; begin < size; begin += kSamplerBlock) {
    if (nearest_[begin / kSamplerBlock] > farthest) continue;
    const std::size_t end = std::min(begin + kSamplerBlock, size);
    for (std::size_t i = begin; i < end; ++i) {
      const bool kept = item(distances_[i], i) <= last;
      distances_[count] = distances_[i];
      ids_[count] = static_cast<TokenId>(i);
      count += kept ? 1 : 0;
    }
  }
  return count;
}

/// The tokens of at least this weight, by index.
std::span<const std::uint64_t> Sampler::collect(std::size_t size, float least) {
  grow(items_, size);
  std::size_t count = 0;
  for (std::size_t i = 0; i < size; ++i) {
    items_[count] = item(distances_[i], i);
    count += weights_[i] >= least ? 1 : 0;
  }
  return std::span(items_).first(count);
}

Choice Sampler::draw_any(std::size_t size, std::uint64_t random, std::uint64_t total) const {
  std::uint64_t left = scaled(random, total);
  std::size_t block = 0;
  while (sums_[block] <= left) left -= sums_[block++];
  for (std::size_t i = block * kSamplerBlock; i < size; ++i) {
    const std::uint64_t weight = whole_weight(weights_[i]);
    if (weight > left) return {.id = static_cast<TokenId>(i), .probability = share(weight, total)};
    left -= weight;
  }
  return {};  // not reached: the weights of the block exceed what is left
}

/// Among tokens up to `last`, of at least the weight `least`.
Choice Sampler::draw_collected(std::span<const std::uint64_t> items, std::uint64_t random, std::uint64_t last,
                               std::uint64_t least) const {
  const auto kept = [&](std::uint64_t one) -> std::uint64_t {
    const std::uint64_t weight = whole_weight(weights_[index_of(one)]);
    return one <= last && weight >= least ? weight : 0;
  };
  std::uint64_t total = 0;
  for (const std::uint64_t one : items) total += kept(one);
  std::uint64_t left = scaled(random, total);
  for (const std::uint64_t one : items) {
    const std::uint64_t weight = kept(one);
    if (weight > left)
      return {.id = static_cast<TokenId>(index_of(one)), .probability = share(weight, total)};
    left -= weight;
  }
  return {};  // not reached
}

}  // namespace tandem
