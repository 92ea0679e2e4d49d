#include "tools/observe/observed_session.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tandem::tools {

ObservedSession describe(const Session& session, std::string model) {
  ObservedSession result;
  result.model = std::move(model);
  result.fingerprint = session.model().fingerprint();
  result.placement = session.planned().placement;
  const Plan& plan = session.plan();
  for (std::size_t b = 0; b < plan.backend_names.size(); ++b) {
    result.backends.push_back(plan.backend_names[b]);
    result.descriptions.push_back(session.planned().backends[b]->info().description);
    if (plan.movable() && plan.homes[b]) result.homes.push_back(plan.backend_names[b]);
  }
  for (LayerKind kind : session.planned().geometry.layers) {
    result.layers.emplace_back(name(state_part(kind)));
  }
  return result;
}

nlohmann::json to_json(const ResidencyEvent& event) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::json() : nlohmann::json(text);
  };
  return {{"what", event.what},
          {"sequence", to_string(event.sequence)},
          {"layers", event.layers},
          {"from", event.from},
          {"to", or_null(event.to)},
          {"decision", event.decision},
          {"error", or_null(event.error)},
          {"tokens", event.tokens},
          {"bytes", event.bytes},
          {"ms", event.milliseconds},
          {"versions", event.versions}};
}

std::string to_text(const ResidencyEvent& event) {
  const std::string where = event.to.empty() ? event.from : fmt::format("{} -> {}", event.from, event.to);
  std::string text = fmt::format("{}: layer{} {} at token {}, {}, {}: {} bytes, {:.3f} ms", event.what,
                                 event.layers.size() == 1 ? "" : "s", fmt::join(event.layers, ","),
                                 event.tokens, where, event.decision, event.bytes, event.milliseconds);
  if (!event.error.empty()) text += ": " + event.error;
  return text;
}

}  // namespace tandem::tools
