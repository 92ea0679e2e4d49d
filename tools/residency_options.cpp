#include "tools/residency_options.hpp"

#include <algorithm>
#include <optional>

#include "tools/fallback/miss_plan.hpp"

namespace tandem::tools {
namespace {

constexpr MissPolicy kPolicies[] = {MissPolicy::refuse, MissPolicy::migrate, MissPolicy::migrate_all,
                                    MissPolicy::replay, MissPolicy::unsafe_restart};

constexpr std::string_view kPolicyNames = "refuse, migrate, migrate_all, replay, unsafe_restart";
constexpr std::string_view kPolicyList =
    "all, or some of refuse, migrate, migrate_all, replay, unsafe_restart between commas, each once";

std::optional<MissPolicy> policy_named(std::string_view text) {
  const auto found = std::ranges::find(kPolicies, text, [](MissPolicy p) { return name(p); });
  return found == std::end(kPolicies) ? std::nullopt : std::optional(*found);
}

std::optional<std::vector<MissPolicy>> policies_named(const std::string& text) {
  if (text == "all") return std::vector<MissPolicy>(std::begin(kPolicies), std::end(kPolicies));
  std::vector<MissPolicy> policies;
  for (const std::string& word : split_list(text)) {
    const std::optional<MissPolicy> policy = policy_named(word);
    if (!policy || std::ranges::find(policies, *policy) != policies.end()) return std::nullopt;
    policies.push_back(*policy);
  }
  return policies;
}

CLI::Validator a_policy() {
  const auto check = [](const std::string& text) {
    return policy_named(text) ? std::string()
                              : fmt::format("expected one of {}, got '{}'", kPolicyNames, text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator a_miss(bool random) {
  const auto check = [random](const std::string& text) {
    if (is_miss(text, random)) return std::string();
    return fmt::format("expected LAYER@TOKEN, as in 3@10{}, got '{}'", random ? ", or random:N" : "", text);
  };
  return CLI::Validator(check, "");
}

}  // namespace

void add_homes(CLI::App& command, std::vector<std::string>& homes) {
  command.add_option_function<std::string>(
      "--homes", [&homes](const std::string& text) { homes = split_list(text); },
      "backends where the state of any layer may live, as in cpu,cuda:0; cpu:1 is a second CPU backend that "
      "stands in for a device");
}

void add_misses(CLI::App& command, std::vector<std::string>& misses, bool random) {
  command
      .add_option(
          "--miss", misses,
          fmt::format("LAYER@TOKEN: before this token's step the weights of the layer's stateful part "
                      "leave the backend of its state for another; may be repeated{}",
                      random ? "; or random:N" : ""))
      ->check(a_miss(random))
      ->allow_extra_args(false)
      ->capture_default_str();
}

void add_policies(CLI::App& command, std::vector<MissPolicy>& policies) {
  const auto set = [&policies](const std::string& text) { policies = *policies_named(text); };
  command.add_option_function<std::string>("--policy", set, fmt::format("{} (default: all)", kPolicyList))
      ->check(CLI::Validator(
          [](const std::string& text) {
            return policies_named(text) ? std::string()
                                        : fmt::format("expected {}, got '{}'", kPolicyList, text);
          },
          ""));
}

Context make_context(const ModelOptions& model, const std::vector<std::string>& homes) {
  const auto is_device = [](const std::string& home) { return home.starts_with("cuda"); };
  return model.make_context(model.may_use_gpu() || std::ranges::any_of(homes, is_device),
                            std::ranges::find(homes, kStandIn) != homes.end());
}

void ResidencyOptions::add(CLI::App& command) {
  add_homes(command, homes);
  command
      .add_option_function<std::string>(
          "--policy", [this](const std::string& text) { policy = *policy_named(text); },
          "what happens when a layer's weights are not where its state is: refuse, migrate, migrate_all, "
          "replay, or unsafe_restart, which gives wrong text (default: refuse)")
      ->check(a_policy());
  add_misses(command, misses, false);
}

void ResidencyOptions::apply(SessionOptions& session) const {
  if (homes.empty() && policy != MissPolicy::refuse) {
    fail(ErrorCode::invalid_argument,
         "--policy {} moves states, and no backend was named that they may move to: give --homes, as in "
         "cpu,cuda:0",
         name(policy));
  }
  session.homes = homes;
  if (!homes.empty()) session.residency = Residency::per_layer;
  if (policy == MissPolicy::replay) session.sequences = 2;
}

}  // namespace tandem::tools
