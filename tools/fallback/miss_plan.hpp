#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/session/session.hpp"

namespace tandem::tools {

/// Before the step that takes token `token` of a sequence (from 0, the prompt's counted), the weights of the
/// layer's stateful part leave the backend where its state lives, and are loaded on another one.
struct PlannedMiss {
  std::int64_t token = 0;
  int layer = 0;

  auto operator<=>(const PlannedMiss&) const = default;
};
/// "3@10": layer 3, token 10.
std::string to_string(const PlannedMiss& miss);

/// Whether a miss is written so: "LAYER@TOKEN", or "random:N" where that is allowed.
bool is_miss(std::string_view text, bool random);

/// The misses that `texts` mean, by token: what "random:N" stands for is drawn from the seed, without
/// repetition, among all layers and the tokens from 1 on. Throws Error(invalid_argument) for a layer or token
/// that is not there, a miss that is given twice, and more random ones than there can be. REQUIRES: is_miss()
/// of each.
std::vector<PlannedMiss> plan_misses(std::span<const std::string> texts, std::uint64_t seed, int layers,
                                     std::int64_t tokens);

/// Makes misses happen to one sequence of a session whose states may live on two backends at least. Not
/// thread-safe. The session outlives it.
class MissPlanter {
 public:
  /// With `all` every layer's weights are loaded where the missed ones go, which migrate_all needs. Throws
  /// Error(invalid_argument) when there are misses and the session has not two homes for states.
  MissPlanter(Session& session, std::vector<PlannedMiss> misses, bool all);

  /// To be called before the step that takes `tokens` tokens from `position` on. Throws as Session::load.
  void before_step(SequenceId sequence, std::int64_t position, std::int64_t tokens);

 private:
  void lose(SequenceId sequence, int layer);

  Session& session_;
  std::vector<PlannedMiss> misses_;
  bool all_;
  std::size_t next_ = 0;
};

/// The weights of all stateful parts back where the session's plan has them, and nowhere else.
void restore_weights(Session& session);

}  // namespace tandem::tools
