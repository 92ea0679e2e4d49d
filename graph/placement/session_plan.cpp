#include "graph/placement/session_plan.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/placement/auto_place.hpp"

namespace tandem {
namespace {

constexpr std::int64_t kDefaultContext = 4096;

std::int64_t resolve_context(const ModelConfig& config, std::int64_t asked) {
  const std::int64_t limit =
      std::min<std::int64_t>(config.max_position_embeddings, std::numeric_limits<std::int32_t>::max());
  if (asked == 0) return std::min(kDefaultContext, limit);
  if (asked < 0 || asked > limit) {
    fail(ErrorCode::invalid_argument,
         "context of {} tokens: the model takes 1 to {} (max_position_embeddings)", asked, limit);
  }
  return asked;
}

void require_limits(const StepLimits& limits) {
  if (limits.tokens >= 1 && limits.outputs >= 1) return;
  fail(ErrorCode::invalid_argument,
       "a session of steps of {} tokens and {} outputs: expected at least 1 of each", limits.tokens,
       limits.outputs);
}

/// By backend of `names`; empty when no homes were asked for.
std::vector<bool> home_flags(const std::vector<std::string>& homes, const std::vector<std::string>& names,
                             const Context& context) {
  std::vector<bool> flags(homes.empty() ? 0 : names.size(), false);
  for (const std::string& home : homes)
    flags[static_cast<std::size_t>(backend_named(home, names, context.absent()))] = true;
  return flags;
}

/// The homes that were asked for; for a mirror one of them is in host memory, else the first such backend of
/// the element type that the model runs in.
std::vector<std::string> all_homes(const SessionOptions& options, const Placement& asked,
                                   const Context& context) {
  std::vector<std::string> homes = options.homes;
  if (options.mirror_every < 0) {
    fail(ErrorCode::invalid_argument, "mirror_every is {}, expected at least 0 tokens", options.mirror_every);
  }
  if (options.mirror_every == 0) return homes;
  const auto used = static_cast<std::size_t>(asked.of(kNoLayer, Part::embedding).backend);
  const DType real = context.backend(used).info().real;
  std::string host;
  for (std::size_t i = 0; i < context.size(); ++i) {
    const BackendInfo& info = context.backend(i).info();
    if (!info.host_memory || info.real != real) continue;
    if (std::find(homes.begin(), homes.end(), info.name) != homes.end()) return homes;
    if (host.empty()) host = info.name;
  }
  if (host.empty())
    fail(ErrorCode::unsupported, "a mirror needs a backend in host memory that computes in {}", name(real));
  homes.push_back(host);
  return homes;
}

/// The backends that a placement uses and those that states may move to, by name, in the context's order.
std::vector<std::string> used_names(const Graph& graph, const Placement& placement,
                                    const std::vector<std::string>& names, std::vector<bool> used) {
  used.resize(names.size(), false);
  for (const Node& node : graph.nodes()) {
    used[static_cast<std::size_t>(placement.of(node.layer, node.part).backend)] = true;
  }
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (used[i]) kept.push_back(names[i]);
  }
  return kept;
}

std::vector<Backend*> named_backends(const Context& context, const std::vector<std::string>& names) {
  std::vector<Backend*> backends;
  for (std::size_t i = 0; i < context.size(); ++i) {
    if (std::find(names.begin(), names.end(), context.backend(i).info().name) != names.end()) {
      backends.push_back(&context.backend(i));
    }
  }
  for (const Backend* backend : backends) {
    if (backend->info().real != backends.front()->info().real) {
      fail(ErrorCode::unsupported, "placement: {} computes in {} and {} in {}; they cannot share a model",
           backends.front()->info().name, name(backends.front()->info().real), backend->info().name,
           name(backend->info().real));
    }
  }
  return backends;
}

/// `homes` are the flags of those that the caller named; a mirror's own home is none of them.
Residency residency_of(const Plan& plan, const std::vector<bool>& homes) {
  const auto elsewhere = [&](int home) { return home != plan.state_home.front(); };
  const bool several = std::any_of(plan.state_home.begin(), plan.state_home.end(), elsewhere) ||
                       std::count(homes.begin(), homes.end(), true) > 1;
  return several ? Residency::per_layer : Residency::uniform;
}

SessionPlan plan_rules(const Context& context, const ModelConfig& config, const Graph& graph,
                       const WeightSizes& sizes, const SessionOptions& options, const Rules& rules) {
  const std::vector<std::string> all = context.names();
  Placement asked =
      Placement::parse(rules.text, all, static_cast<int>(config.num_hidden_layers), context.absent());
  if (!rules.reason.empty()) asked = asked.explained(rules.reason);
  const std::vector<std::string> homes = all_homes(options, asked, context);
  const std::vector<std::string> names = used_names(graph, asked, all, home_flags(homes, all, context));
  SessionPlan planned;
  planned.placement = rules.text;
  planned.note = rules.note;
  planned.backends = named_backends(context, names);
  planned.geometry = state_geometry(config, planned.backends.front()->info().real);
  planned.budget = {.sequences = options.sequences,
                    .context_tokens = resolve_context(config, options.context_tokens),
                    .kept_versions = options.kept_versions,
                    .step_versions = options.step_versions,
                    .poison = options.poison,
                    .verify = options.verify_transfers};
  planned.plan = make_plan(graph, sizes, planned.geometry, asked.renumbered(all, names), names,
                           planned.budget.context_tokens);
  planned.plan.homes = home_flags(homes, names, context);
  for (std::size_t b = 0; b < planned.plan.homes.size(); ++b) {
    planned.plan.stand_ins.push_back(planned.plan.homes[b] && planned.backends[b]->info().host_memory);
  }
  planned.plan.mirrored = options.mirror_every > 0;
  planned.residency =
      options.residency.value_or(residency_of(planned.plan, home_flags(options.homes, all, context)));
  planned.footprints = footprints(graph, sizes, planned.geometry, planned.plan, planned.backends,
                                  planned.budget, options.limits);
  return planned;
}

}  // namespace

bool SessionPlan::fits() const {
  return std::all_of(footprints.begin(), footprints.end(), [](auto& f) { return f.missing() == 0; });
}

SessionPlan plan_session(const Context& context, const ModelConfig& config, const Graph& graph,
                         const WeightSizes& sizes, const SessionOptions& options) {
  require_limits(options.limits);
  const auto plan = [&](const Rules& rules) {
    return plan_rules(context, config, graph, sizes, options, rules);
  };
  if (options.place != "auto") return plan({options.place, "", ""});
  return auto_place(context, static_cast<int>(config.num_hidden_layers), plan);
}

void require_fit(const SessionPlan& planned) {
  for (std::size_t b = 0; b < planned.footprints.size(); ++b) {
    const Footprint& f = planned.footprints[b];
    if (f.missing() == 0) continue;
    const auto bytes = [](std::int64_t n) { return human_bytes(static_cast<std::uint64_t>(n)); };
    fail(ErrorCode::out_of_memory,
         "{}: needs {} (weights {}, state {} for {} sequence{} of {} tokens, workspace {}, tables {}{}), {} "
         "available: {} too much; ask for a smaller context or place less there",
         planned.plan.backend_names[b], human_bytes(f.total()), bytes(f.weights), bytes(f.state),
         planned.budget.sequences, planned.budget.sequences == 1 ? "" : "s", planned.budget.context_tokens,
         bytes(f.workspace), bytes(f.tables), f.mirror > 0 ? ", mirror " + bytes(f.mirror) : "",
         human_bytes(f.available), human_bytes(f.missing()));
  }
}

}  // namespace tandem
