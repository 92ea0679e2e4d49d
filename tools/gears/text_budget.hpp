#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/text/token.hpp"
#include "graph/session/session.hpp"

namespace tandem::tools {

/// What a model in some gears makes of a text, beside the same model in f32.
struct TextResult {
  std::string gears;
  std::int64_t weight_bytes = 0;
  double perplexity = 0;
  double kl_mean = 0, kl_max = 0;  ///< KL(f32 || gears) of the next token's distribution, in nats
  /// How much more surprising the text is than to f32, in nats a token, and the standard error of that.
  double excess_nll = 0, excess_error = 0;
  std::int64_t greedy_equal = 0;  ///< tokens after which both would choose the same next one
  std::int64_t tokens = 0;
};

/// A run of the model in f32 over a text, kept: logits after every token, and what every Gated DeltaNet layer
/// was given.
class TextBase {
 public:
  /// REQUIRES: at least two tokens.
  TextBase(Session& session, std::vector<TokenId> ids, const std::function<void(std::int64_t)>& progress,
           const std::function<bool()>& interrupted);

  const std::vector<TokenId>& ids() const { return ids_; }
  /// By layer: x of its mixer, [tokens, hidden].
  const std::map<int, std::vector<float>>& mixer_inputs() const { return mixer_inputs_; }

  /// Feeds the text to another session and compares. `gears` is the result's name. Throws
  /// Error(interrupted).
  TextResult compare(Session& session, const std::string& gears,
                     const std::function<void(std::int64_t)>& progress,
                     const std::function<bool()>& interrupted) const;

  /// Bytes that the logits of a text take.
  static std::int64_t bytes(std::int64_t tokens, std::int64_t vocab);

 private:
  std::vector<TokenId> ids_;
  std::vector<float> logits_;  ///< [tokens, vocab]
  std::vector<double> nll_;    ///< [tokens - 1]
  std::map<int, std::vector<float>> mixer_inputs_;
};

}  // namespace tandem::tools
