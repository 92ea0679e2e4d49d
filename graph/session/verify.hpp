#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/session/sampler.hpp"
#include "graph/session/session.hpp"

namespace tandem {

/// What somebody thinks that a sequence goes on with.
struct Draft {
  SequenceId sequence;
  TokenId last = 0;                 ///< the token that was chosen and has not been fed yet
  std::span<const TokenId> tokens;  ///< guesses at those after it; may be empty
  SamplingOptions sampling = {};    ///< how this sequence chooses
};

struct Verified {
  std::int64_t accepted = 0;  ///< of the draft's first tokens, those that the model chose as well
  TokenId next = 0;           ///< what it chose after them: the `last` of the next draft
  std::vector<float> logits;  ///< [vocab], which `next` was chosen from
};

/// Speculative decoding, without the drafting: feeds each `last` and its draft in one step, has the model
/// choose after every token, and commits `last` and the accepted tokens. The others are dropped without a
/// copy. State, choices and logits have the bits of decoding one token at a time: a draw is a function of
/// seed and position, and penalties see the tokens that were accepted (sampler.hpp), so this holds for
/// sampling too.
///
/// All or nothing, for all drafts. A verb of their sequences, as to threads (Session). Throws as
/// Session::step and Sampler::choose, with penalties as Session::last_tokens; Error(invalid_argument) for a
/// draft that needs more versions, one a token, than SessionOptions::step_versions.
std::vector<Verified> verify(Session& session, std::span<const Draft> drafts);
Verified verify(Session& session, const Draft& draft);

}  // namespace tandem
