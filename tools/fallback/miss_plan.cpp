#include "tools/fallback/miss_plan.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.hpp"
#include "core/random.hpp"

namespace tandem::tools {
namespace {

constexpr std::string_view kRandom = "random:";

template <class T>
std::optional<T> whole_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<std::int64_t> random_count(std::string_view text) {
  if (!text.starts_with(kRandom)) return std::nullopt;
  const auto count = whole_number<std::int64_t>(text.substr(kRandom.size()));
  return count && *count > 0 ? count : std::nullopt;
}

std::optional<PlannedMiss> one_miss(std::string_view text) {
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  const auto layer = whole_number<int>(text.substr(0, at));
  const auto token = whole_number<std::int64_t>(text.substr(at + 1));
  if (!layer || !token) return std::nullopt;
  return PlannedMiss{*token, *layer};
}

void require_there(const PlannedMiss& miss, int layers, std::int64_t tokens) {
  if (miss.layer >= layers) {
    fail(ErrorCode::invalid_argument, "miss {}: there is no layer {}; the model has layers 0 to {}",
         to_string(miss), miss.layer, layers - 1);
  }
  if (miss.token >= tokens) {
    fail(ErrorCode::invalid_argument,
         "miss {}: token {} is never fed; prompt and continuation feed tokens 0 to {}", to_string(miss),
         miss.token, tokens - 1);
  }
}

/// Draws without repetition: the first `count` of a shuffle of all there can be.
void add_random(std::int64_t count, std::uint64_t seed, int layers, std::int64_t tokens,
                std::vector<PlannedMiss>& misses) {
  std::vector<PlannedMiss> all;
  for (std::int64_t token = 1; token < tokens; ++token) {
    for (int layer = 0; layer < layers; ++layer) {
      if (std::find(misses.begin(), misses.end(), PlannedMiss{token, layer}) == misses.end())
        all.push_back({token, layer});
    }
  }
  if (count > std::ssize(all)) {
    fail(ErrorCode::invalid_argument, "miss random:{}: {} layers and tokens 1 to {} allow {} more at most",
         count, layers, tokens - 1, all.size());
  }
  const CounterRandom random("misses", seed);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const std::size_t other = i + random.bits(i) % (all.size() - i);
    std::swap(all[i], all[other]);
    misses.push_back(all[i]);
  }
}

Piece stateful_part(const Session& session, int layer) {
  const LayerKind kind = session.planned().geometry.layers[static_cast<std::size_t>(layer)];
  return {layer, state_part(kind)};
}

int layer_count(const Session& session) { return static_cast<int>(session.plan().state_home.size()); }

}  // namespace

std::string to_string(const PlannedMiss& miss) { return fmt::format("{}@{}", miss.layer, miss.token); }

bool is_miss(std::string_view text, bool random) {
  return one_miss(text).has_value() || (random && random_count(text).has_value());
}

std::vector<PlannedMiss> plan_misses(std::span<const std::string> texts, std::uint64_t seed, int layers,
                                     std::int64_t tokens) {
  std::vector<PlannedMiss> misses;
  for (const std::string& text : texts) {
    const std::optional<PlannedMiss> miss = one_miss(text);
    if (!miss) continue;
    require_there(*miss, layers, tokens);
    if (std::find(misses.begin(), misses.end(), *miss) != misses.end())
      fail(ErrorCode::invalid_argument, "miss {} is given twice", to_string(*miss));
    misses.push_back(*miss);
  }
  std::int64_t drawn = 0;
  for (const std::string& text : texts) drawn += random_count(text).value_or(0);
  if (drawn > 0) add_random(drawn, seed, layers, tokens, misses);
  std::sort(misses.begin(), misses.end());
  return misses;
}

MissPlanter::MissPlanter(Session& session, std::vector<PlannedMiss> misses, bool all)
    : session_(session), misses_(std::move(misses)), all_(all) {
  const std::vector<bool>& homes = session.plan().homes;
  if (!misses_.empty() && std::count(homes.begin(), homes.end(), true) < 2) {
    fail(ErrorCode::invalid_argument,
         "a miss needs two backends where states may live, one to lose the weights and one to have them: "
         "give --homes, as in cpu,cuda:0");
  }
}

void MissPlanter::lose(SequenceId sequence, int layer) {
  const Plan& plan = session_.plan();
  const auto home = static_cast<std::size_t>(session_.state().home(sequence, layer));
  std::size_t other = home;
  do {
    other = (other + 1) % plan.homes.size();
  } while (!plan.homes[other] || other == home);
  const std::string& target = plan.backend_names[other];
  for (int l = all_ ? 0 : layer; l < (all_ ? layer_count(session_) : layer + 1); ++l)
    session_.load(stateful_part(session_, l), target);
  session_.unload(stateful_part(session_, layer), plan.backend_names[home]);
}

void MissPlanter::before_step(SequenceId sequence, std::int64_t position, std::int64_t tokens) {
  for (; next_ < misses_.size() && misses_[next_].token < position + tokens; ++next_)
    lose(sequence, misses_[next_].layer);
}

void restore_weights(Session& session) {
  const Plan& plan = session.plan();
  for (int layer = 0; layer < layer_count(session); ++layer) {
    const int home = plan.state_home[static_cast<std::size_t>(layer)];
    const Piece piece = stateful_part(session, layer);
    session.load(piece, plan.backend_names[static_cast<std::size_t>(home)]);
    for (std::size_t b = 0; b < plan.backend_names.size(); ++b) {
      if (static_cast<int>(b) != home) session.unload(piece, plan.backend_names[b]);
    }
  }
}

}  // namespace tandem::tools
