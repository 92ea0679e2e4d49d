#include "tools/fallback/experiment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backends/builtin.hpp"
#include "tests/graph/expect_error.hpp"
#include "tests/properties/model_runs.hpp"
#include "tools/fallback/report.hpp"

/// The experiment finds what it looks for: 0 where nothing may differ, and a planted flaw.
namespace tandem::tools {
namespace {

/// The CPU, but for the lowest bit of one gate of every Gated DeltaNet layer.
class FlawedBackend final : public Backend {
 public:
  FlawedBackend() : cpu_(make_cpu_backend({.name = "cpu:1", .threads = 1, .variant = ""})) {}

  const BackendInfo& info() const override { return cpu_->info(); }
  bool alive() noexcept override { return true; }
  Buffer allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  std::uint64_t available_bytes() const override { return cpu_->available_bytes(); }
  ResidentTensor load(const HostTensor& weight) override { return cpu_->load(weight); }
  std::string_view submit(const Op& op) override {
    const std::string_view variant = cpu_->submit(op);
    if (const GdnGates* gates = std::get_if<GdnGates>(&op)) *static_cast<std::uint32_t*>(gates->g.data) ^= 1U;
    return variant;
  }
  void upload(void* to, const void* from, std::size_t bytes) override { cpu_->upload(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { cpu_->download(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { cpu_->copy(to, from, bytes); }
  std::unique_ptr<Event> record() override { return finished_event(); }
  void synchronize() override {}
  std::vector<KernelInfo> kernels() const override { return cpu_->kernels(); }
  void force_variant(std::string_view variant) override { cpu_->force_variant(variant); }

 private:
  std::unique_ptr<Backend> cpu_;
};

Context cpu_and_flaw() {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_cpu_backend({.name = "cpu", .threads = 1, .variant = ""}));
  backends.push_back(std::make_unique<FlawedBackend>());
  return Context(std::move(backends));
}

SessionOptions with_homes(std::vector<std::string> homes = {"cpu", "cpu:1"}) {
  SessionOptions options;
  options.homes = std::move(homes);
  options.residency = Residency::per_layer;
  options.sequences = 2;
  options.context_tokens = 64;
  return options;
}

FallbackSetup setup(std::vector<PlannedMiss> misses) {
  FallbackSetup setup;
  setup.prompt = heldout_ids(6);
  setup.new_tokens = 12;
  setup.misses = std::move(misses);
  return setup;
}

FallbackReport run(Session& session, const FallbackSetup& setup, const std::vector<MissPolicy>& policies) {
  FallbackReport report;
  report.session = describe(session, "tiny");
  report.setup = setup;
  FallbackExperiment experiment(session, setup, {});
  report.undisturbed = experiment.run_undisturbed();
  for (MissPolicy policy : policies) report.policies.push_back(experiment.run(policy, report.undisturbed));
  return report;
}

constexpr MissPolicy kSafe[] = {MissPolicy::migrate, MissPolicy::migrate_all, MissPolicy::replay};

TEST(FallbackExperiment, FindsNothingWhereNothingMayBe) {
  const Context context = make_context({.cpu = {}, .stand_in = true});
  Session session(context, tiny_model(), with_homes());
  const FallbackReport report =
      run(session, setup({{4, 2}, {9, 2}, {9, 3}, {15, 7}}), {std::begin(kSafe), std::end(kSafe)});
  for (const PolicyResult& result : report.policies) {
    EXPECT_EQ(verdict(result, report.setup), "same") << name(result.policy);
    EXPECT_EQ(result.total().different, 0);
    EXPECT_EQ(result.events.size(), 3u) << "two layers were missed at once";
    EXPECT_EQ(result.tokens.size(), 17u);
    EXPECT_EQ(result.tokens_equal, 12);
  }
  EXPECT_FALSE(report.broken());
  EXPECT_THAT(to_text(report), testing::HasSubstr("0 elements of logits and states differ"));
  for (const StateUsage& usage : session.state().usage()) EXPECT_EQ(usage.used_bytes, 0);
  for (int layer = 0; layer < 8; ++layer) EXPECT_FALSE(session.holds(layer, "cpu:1"));
  EXPECT_NO_THROW(session.feed(session.open(), heldout_ids(3), Outputs::last)) << "the weights are back";
}

TEST(FallbackExperiment, FindsAFlaw) {
  const Context context = cpu_and_flaw();
  Session session(context, tiny_model(), with_homes());
  const FallbackReport report = run(session, setup({{4, 2}}), {std::begin(kSafe), std::end(kSafe)});
  for (const PolicyResult& result : report.policies) {
    EXPECT_EQ(verdict(result, report.setup), "DIFFERENT") << name(result.policy);
    EXPECT_GT(result.total().different, 0);
    EXPECT_GT(result.total().max_rel, 0);
    EXPECT_GT(result.layers_different, 0);
  }
  EXPECT_TRUE(report.broken());
  EXPECT_THAT(to_text(report), testing::HasSubstr("a policy that must leave no trace left one"));
  EXPECT_TRUE(to_json(report)["broken"].get<bool>());
}

TEST(FallbackExperiment, CountsEverythingThatMustNotBe) {
  const FallbackSetup with = setup({{4, 2}});
  PolicyResult good;
  good.policy = MissPolicy::migrate;
  good.tokens_in_state = with.fed();
  good.tokens_equal = with.new_tokens;
  EXPECT_FALSE(breaks_promise(good, with));
  const auto broken = [&](auto change) {
    PolicyResult result = good;
    change(result);
    return breaks_promise(result, with);
  };
  EXPECT_TRUE(broken([](PolicyResult& r) { r.tokens.push_back({10, 1, 0, 0}); }));
  EXPECT_TRUE(broken([](PolicyResult& r) { r.layers_different = 1; }));
  EXPECT_TRUE(broken([](PolicyResult& r) { ++r.tokens_in_state; }));
  EXPECT_TRUE(broken([](PolicyResult& r) { --r.tokens_in_state; }));
  EXPECT_TRUE(broken([](PolicyResult& r) { --r.tokens_equal; }));
  EXPECT_TRUE(broken([](PolicyResult& r) { r.marked_unsafe = true; }));
}

TEST(FallbackExperiment, CanBeInterrupted) {
  const Context context = make_context({.cpu = {}, .stand_in = true});
  Session session(context, tiny_model(), with_homes());
  FallbackWatch watch;
  std::int64_t seen = 0;
  watch.progress = [&](std::int64_t done) { seen = done; };
  watch.interrupted = [&] { return seen == 20; };
  FallbackExperiment experiment(session, setup({{4, 2}}), watch);
  const Undisturbed undisturbed = experiment.run_undisturbed();
  expect_error(ErrorCode::interrupted, "after 20 steps",
               [&] { experiment.run(MissPolicy::migrate, undisturbed); });
  for (const StateUsage& usage : session.state().usage()) EXPECT_EQ(usage.used_bytes, 0);
}

TEST(MissPlan, IsInOrderAndInRange) {
  const std::vector<std::string> texts{"3@10", "0@2", "random:20", "7@2"};
  const std::vector<PlannedMiss> misses = plan_misses(texts, 5, 8, 12);
  EXPECT_EQ(misses.size(), 23u);
  EXPECT_TRUE(std::is_sorted(misses.begin(), misses.end()));
  EXPECT_EQ(std::adjacent_find(misses.begin(), misses.end()), misses.end());
  EXPECT_EQ(misses, plan_misses(texts, 5, 8, 12));
  EXPECT_NE(misses, plan_misses(texts, 6, 8, 12));
  const std::vector<std::string> all{"random:88"};
  EXPECT_EQ(plan_misses(all, 1, 8, 12).size(), 88u);
  const std::vector<std::string> more{"random:89"};
  expect_error(ErrorCode::invalid_argument, "allow 88 more", [&] { plan_misses(more, 1, 8, 12); });
}

TEST(MissPlanter, GoesRoundAmongThreeBackends) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const char* name : {"a", "b", "c"})
    backends.push_back(make_cpu_backend({.name = name, .threads = 1, .variant = ""}));
  const Context context(std::move(backends));
  SessionOptions options = with_homes({"a", "b", "c"});
  options.place = "a";
  Session session(context, tiny_model(), options);
  const SequenceId sequence = session.open(MissPolicy::migrate);
  MissPlanter planter(session, {{1, 4}, {2, 4}, {3, 4}}, false);
  std::vector<int> homes;
  for (std::int64_t t = 0; t < 4; ++t) {
    planter.before_step(sequence, t, 1);
    session.feed(sequence, heldout_ids(1), Outputs::none);
    homes.push_back(session.state().home(sequence, 4));
  }
  EXPECT_EQ(homes, (std::vector<int>{0, 1, 2, 0}));
}

}  // namespace
}  // namespace tandem::tools
