#include <nlohmann/json.hpp>

#include "core/arithmetic.hpp"
#include "tools/open_session.hpp"

namespace tandem::tools {
namespace {

struct PlanOptions {
  ModelOptions model;
  bool json = false;
};

std::string bytes_text(std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); }

std::string remark(const Footprint& f) {
  const std::string mirror = f.mirror > 0 ? fmt::format("  mirror {}", bytes_text(f.mirror)) : "";
  if (f.missing() > 0) return mirror + fmt::format("  does not fit: {} too much", human_bytes(f.missing()));
  if (f.in_place > 0) return mirror + fmt::format("  uses {} of weights in place", bytes_text(f.in_place));
  return mirror;
}

/// A row for each backend, so that a plan that does not fit shows what is too large.
std::string footprints_text(const SessionPlan& planned) {
  static constexpr const char kRow[] = "{:>10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}{}\n";
  std::string text =
      fmt::format(kRow, "backend", "weights", "state", "workspace", "tables", "total", "available", "");
  for (std::size_t b = 0; b < planned.footprints.size(); ++b) {
    const Footprint& f = planned.footprints[b];
    text += fmt::format(kRow, planned.plan.backend_names[b], bytes_text(f.weights), bytes_text(f.state),
                        bytes_text(f.workspace), bytes_text(f.tables), human_bytes(f.total()),
                        human_bytes(f.available), remark(f));
  }
  return text;
}

std::string to_text(const SessionPlan& planned) {
  const StateBudget& budget = planned.budget;
  return fmt::format(
      "placement: {}\n\n{}\n{}\n{} sequence of {} tokens, its state {}\n", planned.placement,
      to_text(planned.plan), footprints_text(planned), budget.sequences, budget.context_tokens,
      planned.residency == Residency::uniform ? "on one backend (uniform)" : "with each layer (per_layer)");
}

nlohmann::json lines_json(const Plan& plan) {
  nlohmann::json json = nlohmann::json::array();
  for (const PlanLine& line : plan.lines) {
    json.push_back({{"layer", line.layer == kNoLayer ? nlohmann::json() : nlohmann::json(line.layer)},
                    {"part", name(line.part)},
                    {"backend", plan.backend_names[static_cast<std::size_t>(line.backend)]},
                    {"weight_bytes", line.weight_bytes},
                    {"state_bytes", line.state_bytes},
                    {"reason", line.reason}});
  }
  return json;
}

nlohmann::json to_json(const SessionPlan& planned) {
  nlohmann::json backends = nlohmann::json::array();
  for (std::size_t b = 0; b < planned.footprints.size(); ++b) {
    const Footprint& f = planned.footprints[b];
    backends.push_back({{"backend", planned.plan.backend_names[b]},
                        {"weight_bytes", f.weights},
                        {"in_place_bytes", f.in_place},
                        {"state_bytes", f.state},
                        {"workspace_bytes", f.workspace},
                        {"table_bytes", f.tables},
                        {"mirror_bytes", f.mirror},
                        {"total_bytes", f.total()},
                        {"available_bytes", f.available},
                        {"missing_bytes", f.missing()}});
  }
  return {{"arithmetic_version", kArithmeticVersion},
          {"placement", planned.placement},
          {"residency", planned.residency == Residency::uniform ? "uniform" : "per_layer"},
          {"sequences", planned.budget.sequences},
          {"context_tokens", planned.budget.context_tokens},
          {"fits", planned.fits()},
          {"lines", lines_json(planned.plan)},
          {"backends", backends},
          {"crossings",
           {{"per_step", planned.plan.crossings_per_step},
            {"bytes_per_token", planned.plan.crossing_bytes_per_token},
            {"bytes_per_output", planned.plan.crossing_bytes_per_output}}}};
}

bool has_files(const ModelOptions& model) {
  return model.synthetic || model.gguf() || has_weights(model.path());
}

int run(const PlanOptions& options) {
  const ModelConfig config = options.model.config();
  const Graph graph = options.model.graph();
  const Context context = options.model.make_context();
  SessionOptions session = for_one_sequence();
  session.limits.outputs = 1;  // as `run` has it
  session = with_placement(options.model, context, config.num_hidden_layers, session);
  if (!has_files(options.model))
    tell(fmt::format("{}: no weights there; counted as if in bf16", options.model.path().string()));
  const SessionPlan planned = plan_session(context, config, graph, options.model.sizes(graph), session);
  print_note(planned);
  print_report(options.json ? json_text(to_json(planned), 2) + "\n" : to_text(planned));
  require_fit(planned);
  return kOk;
}

}  // namespace

void add_plan(CLI::App& program, Action& action) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command =
      program.add_subcommand("plan", "Where each layer would run and why, and what that takes and moves");
  options->model.add_model(*command);
  options->model.add_context(*command);
  options->model.add_backends(*command);
  options->model.add_gpu_layers(*command);
  options->model.add_safety(*command);
  command->add_flag("--json", options->json, "print one JSON object");
  command->footer(
      "Loads nothing; config.json is enough. Exit code 7 when a backend has not enough memory.\nExample: "
      "tandem plan --place auto");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace tandem::tools
