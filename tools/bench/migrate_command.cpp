#include <nlohmann/json.hpp>

#include "core/arithmetic.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/synthetic.hpp"
#include "tools/bench/commands.hpp"
#include "tools/bench/measuring.hpp"
#include "tools/bench/moving_state.hpp"
#include "tools/progress.hpp"

namespace tandem::tools {
namespace {

/// `--to` for a machine without a device.
constexpr const char* kCpu = "cpu";

struct MigrateOptions {
  ModelOptions hardware;
  std::string spec = "27B";
  std::string to = "cuda";
  std::int64_t sequences = 4;
  std::int64_t runs = 9;
  bool json = false;
};

/// Milliseconds that a sequence's bytes took in one direction.
struct Direction {
  std::vector<double> copies, migrations;

  double share() const { return spread_of(copies).median / spread_of(migrations).median; }
};

struct MigrateResult {
  std::string model;
  std::string from, from_description, to, to_description;
  std::string link;  ///< what lies between them
  std::string date;  ///< UTC
  std::int64_t layers = 0, bytes = 0, sequences = 0, runs = 0;
  Direction there, back;
  VerbCosts verbs;
  std::int64_t elements = 0, different = 0;
};

/// The host's backend and the one to move to.
struct Ends {
  Context context;
  std::unique_ptr<Backend> second_cpu;  ///< the other end when that is "cpu"
  Backend* host;
  Backend* other;
};

Ends make_ends(const MigrateOptions& options) {
  const bool cpu = options.to == kCpu;
  Ends ends{options.hardware.make_context(!cpu), nullptr, nullptr, nullptr};
  ends.host = &ends.context.backend(static_cast<std::size_t>(backend_named(kCpu, ends.context.names())));
  if (cpu) {
    ends.second_cpu = make_cpu_backend(
        {.name = "second cpu", .threads = options.hardware.threads, .variant = options.hardware.isa});
    ends.other = ends.second_cpu.get();
    return ends;
  }
  const int device = backend_named(options.to, ends.context.names(), ends.context.absent());
  ends.other = &ends.context.backend(static_cast<std::size_t>(device));
  if (ends.other->info().real != ends.host->info().real) {
    fail(ErrorCode::unsupported,
         "{} computes in {}, {} in {}: state cannot move between them; try cuda or cpu",
         ends.other->info().name, name(ends.other->info().real), ends.host->info().name,
         name(ends.host->info().real));
  }
  return ends;
}

/// Every sequence there, then every sequence back, so that none is in a cache when it is its turn.
void measure_round(MovingState& state, MigrateResult& result, bool counts) {
  const auto direction = [&](Direction& direction, double copy, auto move) {
    if (counts) direction.copies.push_back(copy);
    for (std::int64_t i = 0; i < state.sequences(); ++i) {
      const double milliseconds = move(i).milliseconds;
      if (counts) direction.migrations.push_back(milliseconds);
    }
  };
  direction(result.there, state.copy_there_ms(), [&](std::int64_t i) { return state.move_there(i); });
  direction(result.back, state.copy_back_ms(), [&](std::int64_t i) { return state.move_back(i); });
}

MigrateResult measure(const MigrateOptions& options) {
  const SyntheticSpec spec = parse_synthetic_spec(options.spec);
  const Ends ends = make_ends(options);
  const StateGeometry geometry =
      recurrent_part(state_geometry(synthetic_config(spec), ends.host->info().real));
  MigrateResult result;
  result.model = "synthetic " + to_text(spec);
  result.from = ends.host->info().name, result.from_description = ends.host->info().description;
  result.to = ends.other->info().name, result.to_description = ends.other->info().description;
  result.link = ends.other->info().host_memory
                    ? "none: two CPU backends of one machine, host memory to host memory, no device"
                    : "host memory to device memory";
  result.date = time_now();
  result.layers = std::ssize(geometry.layers), result.sequences = options.sequences,
  result.runs = options.runs;
  {
    MovingState state(*ends.host, *ends.other, geometry, options.sequences);
    result.bytes = state.bytes();
    repeat(options.runs, [&](bool is_warm_up) { measure_round(state, result, !is_warm_up); });
    result.elements = state.elements(), result.different = state.count_different();
  }
  result.verbs = measure_verbs(*ends.other, geometry, options.runs);
  return result;
}

double gigabytes_per_second(std::int64_t bytes, double milliseconds) {
  return static_cast<double>(bytes) / milliseconds * 1e-6;
}

nlohmann::json to_json(const Direction& direction) {
  return {{"copy_milliseconds", to_json(spread_of(direction.copies))},
          {"migration_milliseconds", to_json(spread_of(direction.migrations))},
          {"share_of_copy_rate", direction.share()}};
}

nlohmann::json to_json(const VerbCost& cost) {
  return {{"microseconds", to_json(spread_of(cost.microseconds))},
          {"bytes_moved", cost.bytes_moved},
          {"bytes_beyond_slots", cost.bytes_beyond_slots}};
}

nlohmann::json to_json(const MigrateResult& r) {
  return {{"arithmetic_version", kArithmeticVersion},
          {"model", r.model},
          {"from", {{"backend", r.from}, {"description", r.from_description}}},
          {"to", {{"backend", r.to}, {"description", r.to_description}}},
          {"link", r.link},
          {"date", r.date},
          {"layers", r.layers},
          {"bytes_per_sequence", r.bytes},
          {"sequences", r.sequences},
          {"runs", r.runs},
          {"there", to_json(r.there)},
          {"back", to_json(r.back)},
          {"kept_versions", r.verbs.kept_versions},
          {"step", to_json(r.verbs.step)},
          {"fork", to_json(r.verbs.fork)},
          {"rollback", to_json(r.verbs.rollback)},
          {"state", {{"elements", r.elements}, {"different", r.different}}}};
}

std::string to_text(const MigrateResult& r) {
  std::string text = fmt::format("state             {}, {} recurrent layers: {:.1f} MB a sequence\n", r.model,
                                 r.layers, static_cast<double>(r.bytes) * 1e-6);
  text += fmt::format("from              {} ({})\n", r.from, r.from_description);
  text += fmt::format("to                {} ({})\n", r.to, r.to_description);
  text += fmt::format("link              {}\n", r.link);
  text += fmt::format("measured          {}, {} sequences in turn, {} runs after a warm-up\n\n", r.date,
                      r.sequences, r.runs);
  text += fmt::format("{:<44}{:>10}{:>10}{:>10}{:>10}\n", "milliseconds a sequence", "median", "min", "max",
                      "GB/s");
  const auto line = [&](std::string_view name, const std::vector<double>& values) {
    const Spread s = spread_of(values);
    text += fmt::format("  {:<42}{:>10.3f}{:>10.3f}{:>10.3f}{:>10.1f}\n", name, s.median, s.min, s.max,
                        gigabytes_per_second(r.bytes, s.median));
  };
  line("copy there, staging memory, one piece", r.there.copies);
  line("migration there, both sides checked", r.there.migrations);
  line("copy back", r.back.copies);
  line("migration back", r.back.migrations);
  text += fmt::format("  {:<42}{:>9.1f}% there, {:.1f}% back\n\n", "share of the copy's rate",
                      100 * r.there.share(), 100 * r.back.share());
  text += fmt::format("{:<44}{:>10}{:>10}{:>10}\n",
                      fmt::format("microseconds, {} versions kept", r.verbs.kept_versions), "median", "min",
                      "max");
  const auto verb = [&](std::string_view name, const VerbCost& cost) {
    const Spread s = spread_of(cost.microseconds);
    text += fmt::format("  {:<42}{:>10.1f}{:>10.1f}{:>10.1f}  {} bytes moved, {} beyond slots\n", name,
                        s.median, s.min, s.max, cost.bytes_moved, cost.bytes_beyond_slots);
  };
  verb("step: begin and commit, nothing computed", r.verbs.step);
  verb("fork", r.verbs.fork);
  verb("rollback to the oldest", r.verbs.rollback);
  text += fmt::format("\nstates            {} of {} elements differ\n", r.different, r.elements);
  return text;
}

int run(const MigrateOptions& options) {
  catch_interrupts();
  const MigrateResult result = measure(options);
  print(options.json ? json_text(to_json(result), 2) + "\n" : to_text(result));
  return result.different == 0 ? kOk : kDifferent;
}

}  // namespace

void add_migrate(CLI::App& bench, Action& action) {
  const auto options = std::make_shared<MigrateOptions>();
  CLI::App* command = bench.add_subcommand(
      "migrate", "What moving a sequence's recurrent state to a device and back takes, beside a plain copy");
  command
      ->add_option("--synthetic", options->spec,
                   "the state's sizes: those of a synthetic model's recurrent layers")
      ->capture_default_str();
  command->add_option("--to", options->to, "the device to move to; cpu: a second CPU backend of this machine")
      ->check(not_empty())
      ->capture_default_str();
  command
      ->add_option("--sequences", options->sequences,
                   "sequences that take turns; with few of them, state may be in a cache")
      ->check(number<std::int64_t>("a whole number of 1 to 256", 1, 256))
      ->capture_default_str();
  command
      ->add_option("--runs", options->runs, "times that every sequence moves there and back, after a warm-up")
      ->check(number<std::int64_t>("a whole number of 1 to 10000", 1, 10000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  options->hardware.add_hardware(*command);
  command->footer(
      "Exit code 1 when a bit has changed, 4 without a device. Example: tandem bench migrate --to cuda");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace tandem::tools
