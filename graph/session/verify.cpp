#include "graph/session/verify.hpp"

#include "core/error.hpp"
#include "core/float_environment.hpp"

namespace tandem {
namespace {

/// Follows a draft as long as the model chooses the same.
Verified follow(const Draft& draft, std::span<const float> logits, std::int64_t position, std::int64_t vocab,
                const SamplingOptions& sampling) {
  Verified result;
  for (const TokenId guess : draft.tokens) {
    const auto row = logits.subspan(static_cast<std::size_t>(result.accepted * vocab));
    if (choose(row.first(static_cast<std::size_t>(vocab)), sampling, position + result.accepted) != guess)
      break;
    ++result.accepted;
  }
  const auto row =
      logits.subspan(static_cast<std::size_t>(result.accepted * vocab), static_cast<std::size_t>(vocab));
  result.logits.assign(row.begin(), row.end());
  result.next = choose(row, sampling, position + result.accepted);
  return result;
}

void require_versions(const Session& session, const Draft& draft) {
  const std::int64_t allowed = session.state().budget().step_versions;
  if (static_cast<std::int64_t>(draft.tokens.size()) < allowed) return;
  fail(ErrorCode::invalid_argument,
       "verify: a draft of {} tokens needs {} versions, the session allows {} a step; shorten it or open the "
       "session with more step_versions",
       draft.tokens.size(), draft.tokens.size() + 1, allowed);
}

}  // namespace

std::vector<Verified> verify(Session& session, std::span<const Draft> drafts,
                             const SamplingOptions& sampling) {
  const FloatEnvironment environment;
  validate(sampling);
  std::vector<std::vector<TokenId>> tokens;
  std::vector<SequenceTokens> batch;
  std::vector<std::int64_t> positions;  // of the first token to choose
  for (const Draft& draft : drafts) {
    require_versions(session, draft);
    std::vector<TokenId>& all = tokens.emplace_back(1, draft.last);
    all.insert(all.end(), draft.tokens.begin(), draft.tokens.end());
    positions.push_back(session.tokens(draft.sequence) + 1);
  }
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const auto versions = static_cast<std::int64_t>(tokens[i].size());
    batch.push_back({drafts[i].sequence, tokens[i], Outputs::all, versions});
  }
  std::vector<Verified> results(drafts.size());
  session.step(batch, {}, [&](std::size_t i, std::span<const float> logits) {
    results[i] = follow(drafts[i], logits, positions[i], session.vocab_size(), sampling);
    return results[i].accepted + 1;
  });
  return results;
}

Verified verify(Session& session, const Draft& draft, const SamplingOptions& sampling) {
  return std::move(verify(session, {&draft, 1}, sampling).front());
}

}  // namespace tandem
