#include "graph/session/verify.hpp"

#include "core/error.hpp"
#include "core/float_environment.hpp"

namespace tandem {
namespace {

/// What the penalties of a draft look back on before its `last`; nothing without penalties.
std::vector<TokenId> history_of(const Session& session, const Draft& draft) {
  const std::int64_t window = penalty_window(draft.sampling, session.tokens(draft.sequence) + 1);
  if (window == 0) return {};
  std::vector<TokenId> history = session.last_tokens(draft.sequence, window);
  history.push_back(draft.last);
  return history;
}

/// Follows a draft as long as the model chooses the same. `position` is of the first token to choose,
/// `history` what stands before it.
Verified follow(const Draft& draft, std::span<const float> logits, std::int64_t position, std::int64_t vocab,
                std::vector<TokenId> history, Sampler& sampler) {
  Verified result;
  const auto row = [&] {
    return logits.subspan(static_cast<std::size_t>(result.accepted * vocab), static_cast<std::size_t>(vocab));
  };
  const auto choose = [&] {
    return sampler.choose(row(), draft.sampling, position + result.accepted, history).id;
  };
  for (const TokenId guess : draft.tokens) {
    if (choose() != guess) break;
    ++result.accepted;
    if (!history.empty()) history.push_back(guess);
  }
  result.logits.assign(row().begin(), row().end());
  result.next = choose();
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

std::vector<Verified> verify(Session& session, std::span<const Draft> drafts) {
  const FloatEnvironment environment;
  std::vector<std::vector<TokenId>> tokens;
  std::vector<SequenceTokens> batch;
  std::vector<std::int64_t> positions;  // of the first token to choose
  std::vector<std::vector<TokenId>> histories;
  for (const Draft& draft : drafts) {
    validate(draft.sampling);
    require_versions(session, draft);
    histories.push_back(history_of(session, draft));
    std::vector<TokenId>& all = tokens.emplace_back(1, draft.last);
    all.insert(all.end(), draft.tokens.begin(), draft.tokens.end());
    positions.push_back(session.tokens(draft.sequence) + 1);
  }
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const auto versions = static_cast<std::int64_t>(tokens[i].size());
    batch.push_back({drafts[i].sequence, tokens[i], Outputs::all, versions});
  }
  std::vector<Verified> results(drafts.size());
  Sampler sampler;
  session.step(batch, {}, [&](std::size_t i, std::span<const float> logits) {
    results[i] = follow(drafts[i], logits, positions[i], session.vocab_size(), histories[i], sampler);
    return results[i].accepted + 1;
  });
  return results;
}

Verified verify(Session& session, const Draft& draft) {
  return std::move(verify(session, std::span(&draft, 1)).front());
}

}  // namespace tandem
