#include "tools/gears/text_budget.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/numerics64.hpp"
#include "graph/model/graph.hpp"
#include "graph/session/sampler.hpp"
#include "tools/fallback/difference.hpp"

namespace tandem::tools {
namespace {

constexpr std::int64_t kTextStep = 64;

/// Feeds ids in steps and hands over the logits of each.
void feed(Session& session, std::span<const TokenId> ids, const Probe& probe,
          const std::function<void(std::int64_t first, std::span<const float> logits)>& take,
          const std::function<void(std::int64_t)>& progress, const std::function<bool()>& interrupted) {
  const SequenceId sequence = session.open();
  const std::int64_t step = std::min(kTextStep, session.executor().limits().tokens);
  for (std::int64_t t = 0; t < std::ssize(ids); t += step) {
    if (interrupted && interrupted()) fail(ErrorCode::interrupted, "interrupted after {} tokens", t);
    const auto count = static_cast<std::size_t>(std::min(step, std::ssize(ids) - t));
    const SequenceTokens tokens{sequence, ids.subspan(static_cast<std::size_t>(t), count), Outputs::all};
    take(t, session.step(std::span(&tokens, 1), probe).front());
    if (progress) progress(t + static_cast<std::int64_t>(count));
  }
  session.close(sequence);
}

double nll_of(std::span<const float> logits, TokenId next) {
  return log_sum_exp(logits) - static_cast<double>(logits[static_cast<std::size_t>(next)]);
}

/// Mean of a sample, and its standard error.
struct Mean {
  double mean = 0, error = 0;

  explicit Mean(const std::vector<double>& sample) {
    const auto n = static_cast<double>(sample.size());
    for (const double value : sample) mean += value / n;
    double squares = 0;
    for (const double value : sample) squares += (value - mean) * (value - mean);
    error = n > 1 ? std::sqrt(squares / (n - 1) / n) : 0;
  }
};

bool is_recurrent(const Node& node) { return node.part == Part::gdn; }

}  // namespace

std::int64_t TextBase::bytes(std::int64_t tokens, std::int64_t vocab) {
  return checked_mul(checked_mul(tokens, vocab, "logits"), sizeof(float), "logits");
}

TextBase::TextBase(Session& session, std::vector<TokenId> ids,
                   const std::function<void(std::int64_t)>& progress,
                   const std::function<bool()>& interrupted)
    : ids_(std::move(ids)) {
  const auto keep_inputs = [&](const Node& node, const Value& value, const ConstTensor& host) {
    if (value.name != "mixer_in" || !is_recurrent(node)) return;
    const auto* first = static_cast<const float*>(host.data);
    std::vector<float>& inputs = mixer_inputs_[value.layer];
    inputs.insert(inputs.end(), first, first + host.shape.elements());
  };
  const auto keep = [&](std::int64_t, std::span<const float> logits) {
    logits_.insert(logits_.end(), logits.begin(), logits.end());
  };
  feed(session, ids_, keep_inputs, keep, progress, interrupted);
  const std::size_t vocab = logits_.size() / ids_.size();
  for (std::size_t t = 0; t + 1 < ids_.size(); ++t)
    nll_.push_back(nll_of(std::span(logits_).subspan(t * vocab, vocab), ids_[t + 1]));
}

TextResult TextBase::compare(Session& session, const std::string& gears,
                             const std::function<void(std::int64_t)>& progress,
                             const std::function<bool()>& interrupted) const {
  const auto vocab = static_cast<std::size_t>(session.vocab_size());
  TextResult result{gears, session.model().weight_bytes(), 0, 0, 0, 0, 0, 0, std::ssize(ids_)};
  std::vector<double> nll, excess;
  const auto take = [&](std::int64_t first, std::span<const float> logits) {
    for (std::size_t row = 0; row < logits.size() / vocab; ++row) {
      const std::size_t t = static_cast<std::size_t>(first) + row;
      const std::span<const float> found = logits.subspan(row * vocab, vocab),
                                   f32 = std::span(logits_).subspan(t * vocab, vocab);
      const double kl = difference_of(f32, found).kl;
      result.kl_mean += kl / static_cast<double>(ids_.size());
      result.kl_max = std::max(result.kl_max, kl);
      if (choose_greedily(f32) == choose_greedily(found)) ++result.greedy_equal;
      if (t + 1 == ids_.size()) continue;
      nll.push_back(nll_of(found, ids_[t + 1]));
      excess.push_back(nll.back() - nll_[t]);
    }
  };
  feed(session, ids_, {}, take, progress, interrupted);
  result.perplexity = exp64(Mean(nll).mean);
  const Mean mean(excess);
  result.excess_nll = mean.mean;
  result.excess_error = mean.error;
  return result;
}

}  // namespace tandem::tools
