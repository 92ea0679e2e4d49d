#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/arithmetic.hpp"
#include "core/random.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/synthetic.hpp"
#include "tools/bench/commands.hpp"
#include "tools/bench/measuring.hpp"
#include "tools/bench/round_trip.hpp"
#include "tools/progress.hpp"

namespace tandem::tools {
namespace {

struct RoundTripOptions {
  ModelOptions model;
  std::string spec = "27B";
  std::string layer_kind = "gdn";
  std::int64_t tokens = 64;
  std::int64_t runs = 9;
  bool json = false;
};

struct RoundTripResult {
  std::string model;
  std::string backend, description;
  std::string date;  ///< UTC
  std::int64_t tokens = 0, runs = 0;
  Spread host_facing, device_internal;  ///< milliseconds a token and layer
  double round_trip = 0;                ///< difference of the medians
  std::int64_t outputs = 0, outputs_different = 0;
  std::int64_t state = 0, state_different = 0;  ///< elements, over all runs

  bool same() const { return outputs_different == 0 && state_different == 0; }
};

/// The mixer of the model's first layer alone.
std::shared_ptr<const Model> make_mixer(SyntheticSpec spec, const Gears& gears) {
  spec.layers = 1;
  ModelConfig config = synthetic_config(spec);
  Graph graph = build_gdn_graph(config, 0, synthetic_gears(spec, gears));
  const auto source = [&](const Weight& weight) { return synthetic_data(spec, config, weight); };
  return std::make_shared<const Model>(config, std::move(graph), source);
}

std::vector<float> make_inputs(std::int64_t elements, std::uint64_t seed) {
  std::vector<float> inputs(static_cast<std::size_t>(elements));
  write_random({DType::f32, Shape{elements}, CounterRandom("x", seed)}, 0, elements, inputs.data());
  return inputs;
}

std::int64_t elements_of(const std::vector<std::byte>& bytes, DType type) {
  return static_cast<std::int64_t>(bytes.size() / size_of(type));
}

void compare(const RoundTrip::Outcome& a, const RoundTrip::Outcome& b, DType real, RoundTripResult& result) {
  result.outputs += elements_of(a.outputs, real);
  result.outputs_different += count_different(a.outputs, b.outputs, real);
  result.state += elements_of(a.state.bytes, real);
  result.state_different += count_different(a.state.bytes, b.state.bytes, real);
}

RoundTripResult measure(const RoundTripOptions& options) {
  const SyntheticSpec spec = parse_synthetic_spec(options.spec);
  const Context context = options.model.make_context();
  const int index = backend_named(options.model.place, context.names(), context.absent());
  Backend& backend = context.backend(static_cast<std::size_t>(index));
  const std::shared_ptr<const Model> model = make_mixer(spec, options.model.gears);
  RoundTrip run(backend, model, make_inputs(options.tokens * model->config().hidden_size, spec.seed));
  RoundTripResult result{"synthetic " + to_text(spec),
                         backend.info().name,
                         backend.info().description,
                         time_now(),
                         options.tokens,
                         options.runs,
                         {},
                         {},
                         0,
                         0,
                         0,
                         0,
                         0};
  std::vector<double> host_facing, device_internal;
  repeat(options.runs, [&](bool is_warm_up) {
    const RoundTrip::Outcome a = run.host_facing(), b = run.device_internal();
    compare(a, b, run.real(), result);
    if (is_warm_up) return;
    host_facing.push_back(a.milliseconds / static_cast<double>(options.tokens));
    device_internal.push_back(b.milliseconds / static_cast<double>(options.tokens));
  });
  result.host_facing = spread_of(std::move(host_facing));
  result.device_internal = spread_of(std::move(device_internal));
  result.round_trip = result.host_facing.median - result.device_internal.median;
  return result;
}

nlohmann::json to_json(const RoundTripResult& r) {
  return {{"arithmetic_version", kArithmeticVersion},
          {"model", r.model},
          {"layer_kind", "gdn"},
          {"backend", r.backend},
          {"description", r.description},
          {"date", r.date},
          {"tokens", r.tokens},
          {"runs", r.runs},
          {"milliseconds_per_token_layer",
           {{"host_facing", to_json(r.host_facing)},
            {"device_internal", to_json(r.device_internal)},
            {"difference_of_medians", r.round_trip}}},
          {"outputs", {{"elements", r.outputs}, {"different", r.outputs_different}}},
          {"state", {{"elements", r.state}, {"different", r.state_different}}}};
}

std::string to_text(const RoundTripResult& r) {
  std::string text = fmt::format("model             {}, one Gated DeltaNet mixer\n", r.model);
  text += fmt::format("backend           {} ({})\n", r.backend, r.description);
  text +=
      fmt::format("measured          {}, {} tokens, {} runs after a warm-up\n\n", r.date, r.tokens, r.runs);
  text += fmt::format("{:<44}{:>10}{:>10}{:>10}\n", "milliseconds a token and layer", "median", "min", "max");
  const auto line = [](std::string_view name, const Spread& s) {
    return fmt::format("  {:<42}{:>10.4f}{:>10.4f}{:>10.4f}\n", name, s.median, s.min, s.max);
  };
  text += line(fmt::format("host-facing: {} round trips", r.tokens), r.host_facing);
  text += line("device-internal: one round trip", r.device_internal);
  text += fmt::format("  {:<42}{:>10.4f}\n\n", "difference of the medians", r.round_trip);
  text += fmt::format("outputs           {} of {} elements differ\n", r.outputs_different, r.outputs);
  text += fmt::format("final states      {} of {} elements differ\n", r.state_different, r.state);
  return text;
}

int run(const RoundTripOptions& options) {
  catch_interrupts();
  const RoundTripResult result = measure(options);
  print(options.json ? json_text(to_json(result), 2) + "\n" : to_text(result));
  return result.same() ? kOk : kDifferent;
}

}  // namespace

void add_round_trip(CLI::App& bench, Action& action) {
  const auto options = std::make_shared<RoundTripOptions>();
  CLI::App* command = bench.add_subcommand(
      "roundtrip", "What waiting for every token costs: a layer token by token, with and without the host");
  command
      ->add_option(
          "--synthetic", options->spec,
          "the layer's sizes, element type and seed: a synthetic model, of which it is the first layer")
      ->capture_default_str();
  command->add_option("--layer-kind", options->layer_kind, "the layer: gdn, its mixer without norm and MLP")
      ->check(CLI::IsMember({"gdn"}))
      ->capture_default_str();
  command->add_option("--tokens", options->tokens, "tokens in a run")
      ->check(number<std::int64_t>("a whole number of 1 to 65536", 1, 65536))
      ->capture_default_str();
  command->add_option("--runs", options->runs, "runs of each kind, in turn, after a warm-up")
      ->check(number<std::int64_t>("a whole number of 1 to 10000", 1, 10000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  options->model.add_gear(*command);
  options->model.add_backends(*command);
  command->footer(
      "Exit code 1 when the two ways differ in a bit. Example: tandem bench roundtrip --place cpu --tokens "
      "64");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace tandem::tools
