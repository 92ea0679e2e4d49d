#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "graph/session/session.hpp"

namespace tandem::tools {

/// What a ledger and a trace say of a session before it does anything.
struct ObservedSession {
  std::string model;  ///< its name in output
  std::string fingerprint;
  std::string placement;
  std::vector<std::string> backends;      ///< names, by index
  std::vector<std::string> descriptions;  ///< "avx512, 2 threads"
  std::vector<std::string> homes;         ///< where states may move; empty: nowhere
  std::vector<std::string> layers;        ///< the stateful part of each: "gdn" or "attention"

  const std::string& backend(int index) const { return backends[static_cast<std::size_t>(index)]; }
};

ObservedSession describe(const Session& session, std::string model);

/// As an object, in ledgers and in the output of commands. `to` and `error` are null when there is none.
nlohmann::json to_json(const ResidencyEvent& event);

/// A line for people: "miss: layer 3 at token 10, cpu -> cuda:0, migrate: 118784 bytes, 0.21 ms". A part of
/// what it says, an error's text, comes last.
std::string to_text(const ResidencyEvent& event);

}  // namespace tandem::tools
