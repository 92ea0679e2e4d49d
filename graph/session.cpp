#include "graph/session.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "graph/qwen35.hpp"

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

/// The backends that a placement uses, by name, in the context's order.
std::vector<std::string> used_names(const Graph& graph, const Placement& placement,
                                    const std::vector<std::string>& names) {
  std::vector<bool> used(names.size(), false);
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

std::vector<LayerCapacity> capacities(const StateGeometry& geometry, const Plan& plan, std::size_t backends) {
  std::vector<LayerCapacity> result(backends);
  for (std::size_t layer = 0; layer < geometry.layers.size(); ++layer) {
    LayerCapacity& capacity = result[static_cast<std::size_t>(plan.state_home[layer])];
    ++(geometry.layers[layer] == LayerKind::recurrent ? capacity.recurrent : capacity.kv);
  }
  return result;
}

}  // namespace

Session::Session(const Context& context, std::shared_ptr<const Model> model, const SessionOptions& options)
    : model_(std::move(model)), residency_(options.residency) {
  const ModelConfig& config = model_->config();
  const int layers = static_cast<int>(config.num_hidden_layers);
  const std::vector<std::string> all = context.names();
  const Placement asked = Placement::parse(options.place, all, layers);
  const std::vector<std::string> names = used_names(model_->graph(), asked, all);
  backends_ = named_backends(context, names);
  const Placement placement = asked.renumbered(all, names);
  const StateGeometry geometry = state_geometry(config, backends_.front()->info().real);
  const std::int64_t context_tokens = resolve_context(config, options.context_tokens);
  plan_ = make_plan(model_->graph(), *model_, geometry, placement, names, context_tokens);
  state_ =
      std::make_unique<StateManager>(geometry, backends_, capacities(geometry, plan_, backends_.size()),
                                     StateBudget{options.sequences, context_tokens, options.kept_versions});
  residents_ = std::make_unique<Residents>(backends_);
  residents_->load(*model_, plan_);
  executor_ =
      std::make_unique<Executor>(*model_, plan_, backends_, *residents_, options.limits, context_tokens);
  scheduler_ = std::make_unique<Scheduler>(*model_, *state_, *executor_);
}

SequenceId Session::open() { return state_->open({residency_, plan_.state_home}); }

std::vector<float> Session::feed(SequenceId sequence, std::span<const TokenId> tokens, Outputs outputs,
                                 const std::function<bool()>& interrupted) {
  const StepLimits& limits = scheduler_->limits();
  const std::int64_t chunk =
      outputs == Outputs::all ? std::min(limits.tokens, limits.outputs) : limits.tokens;
  std::vector<float> logits;
  for (std::size_t begin = 0; begin < tokens.size();) {
    if (interrupted && interrupted())
      fail(ErrorCode::interrupted, "interrupted after {} of {} tokens", begin, tokens.size());
    const std::size_t count = std::min(static_cast<std::size_t>(chunk), tokens.size() - begin);
    const bool is_last = begin + count == tokens.size();
    const Outputs wanted = outputs == Outputs::last && !is_last ? Outputs::none : outputs;
    const SequenceTokens step[] = {{sequence, tokens.subspan(begin, count), wanted}};
    const std::vector<float> rows = std::move(scheduler_->step(step).front());
    logits.insert(logits.end(), rows.begin(), rows.end());
    begin += count;
  }
  return logits;
}

}  // namespace tandem
