#include "core/float_environment.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "backends/cpu/cpu_backend.hpp"
#include "core/error.hpp"
#include "core/random_tensor.hpp"
#include "core/threads.hpp"
#include "graph/model/model_files.hpp"
#include "graph/session/generate.hpp"
#include "tests/properties/model_runs.hpp"

namespace tandem {
namespace {

constexpr unsigned kDefault = 0x1f80;

struct Mode {
  const char* name;
  unsigned mxcsr;
};

/// What a caller can have set: rounding, flush-to-zero (0x8000), denormals-are-zero (0x40), exceptions that
/// trap.
constexpr Mode kModes[] = {{"nearest", kDefault},
                           {"down", kDefault | 0x2000},
                           {"up", kDefault | 0x4000},
                           {"toward zero", kDefault | 0x6000},
                           {"flush to zero", kDefault | 0x8000},
                           {"denormals are zero", kDefault | 0x40},
                           {"both", kDefault | 0x8040},
                           {"up and both", kDefault | 0xc040},
                           {"all exceptions trap", 0}};

/// The caller's environment while it lives. Nothing but the library computes inside.
class Caller {
 public:
  explicit Caller(const Mode& mode) { __builtin_ia32_ldmxcsr(mode.mxcsr); }
  ~Caller() { __builtin_ia32_ldmxcsr(kDefault); }
  static unsigned now() { return __builtin_ia32_stmxcsr(); }
};

/// The values' rows of what goes into the convolution, times 2^-122: they and all that becomes of them, the
/// states, are subnormal or next to it.
HostTensor faint(const HostTensor& stored, std::int64_t first_row) {
  const auto copy =
      std::make_shared<std::vector<std::uint16_t>>(static_cast<std::size_t>(stored.view.shape.elements()));
  std::memcpy(copy->data(), stored.view.data, copy->size() * sizeof(std::uint16_t));
  for (auto i = static_cast<std::size_t>(first_row * stored.view.row_elements()); i < copy->size(); ++i)
    (*copy)[i] = round_to_bf16(num::widen(bf16{(*copy)[i]}) * 0x1p-122f).bits;
  return {ConstTensor(copy->data(), DType::bf16, stored.view.shape), copy};
}

/// The shipped model with faint values.
std::shared_ptr<const Model> faint_model() {
  const FloatEnvironment environment;  // ModelFiles lies below the entries that set it
  const ModelFiles files(tiny_directory());
  const auto source = [&](const Weight& weight) -> WeightData {
    const WeightData stored = files.data(weight);
    if (files.stored_name(weight).find("in_proj_qkv") == std::string::npos) return stored;
    return faint(stored.on_host(), 2 * files.config().key_dim());
  };
  return std::make_shared<const Model>(files.config(), files.graph({}), source);
}

std::int64_t count_subnormal(const std::vector<LayerState>& layers) {
  std::int64_t count = 0;
  for (const LayerState& layer : layers) {
    const std::span<const std::byte> state = layer.piece("recurrent");
    for (std::size_t at = 0; at < state.size(); at += sizeof(float)) {
      std::uint32_t bits;
      std::memcpy(&bits, state.data() + at, sizeof bits);
      count += (bits & 0x7fffffffu) - 1 < 0x7fffffu ? 1 : 0;
    }
  }
  return count;
}

constexpr std::size_t kTokens = 40;

struct Result {
  Outcome outcome;
  Score score;
  std::vector<TokenId> sampled;
  unsigned after = 0;  ///< the caller's environment at the end
};

/// Opens the model, feeds tokens, scores and samples, all as this caller.
Result run_as(const Mode& mode, int threads) {
  const std::vector<TokenId> ids = heldout_ids(kTokens);
  GenerateOptions sampling;
  sampling.max_new_tokens = 8;
  sampling.sampling.temperature = 0.8;

  Result result;
  const Caller caller(mode);
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_cpu_backend({.name = "cpu", .threads = threads, .variant = ""}));
  const Context context(std::move(backends));
  SessionOptions options;
  options.context_tokens = 128;
  options.sequences = 3;
  Session session(context, faint_model(), options);
  const ScopedSequence first(session);
  result.outcome.logits = session.feed(first.id(), ids, Outputs::all);
  result.outcome.layers = all_layers(session.state(), first.id());
  result.score = score(session, ids);
  const ScopedSequence second(session);
  result.sampled = generate(session, second.id(), ids, sampling).ids;
  result.after = Caller::now();
  return result;
}

TEST(FloatEnvironment, TheCallersChangesNoBit) {
  const Result expected = run_as(kModes[0], 1);
  ASSERT_GT(count_subnormal(expected.outcome.layers), 1000) << "nothing was tested";
  for (const Mode& mode : kModes) {
    for (int threads : {1, 2, 8, 64}) {
      if (threads == 64 && mode.mxcsr != (kDefault | 0xc040)) continue;
      const std::string what = fmt::format("{}, {} threads", mode.name, threads);
      const Result found = run_as(mode, threads);
      expect_same(expected.outcome, found.outcome, what);
      EXPECT_TRUE(found.score.nll == expected.score.nll) << what;
      EXPECT_EQ(found.sampled, expected.sampled) << what;
      EXPECT_EQ(found.after, mode.mxcsr) << what << ": the caller's environment was changed";
    }
  }
}

/// Random weights, quantised: what is computed before the first step.
TEST(FloatEnvironment, OfWhoMakesAModelChangesNoBit) {
  const std::filesystem::path directory = tiny_directory();  // the standard library's paths trap on their own
  const Gears gears = Gears::parse("q4");
  const auto fingerprint = [&](const Mode& mode) {
    const Caller caller(mode);
    return Model::open(directory, gears)->fingerprint();
  };
  const auto expected = fingerprint(kModes[0]);
  for (const Mode& mode : {kModes[2], kModes[6], kModes[8]})
    EXPECT_EQ(fingerprint(mode), expected) << mode.name;
}

TEST(FloatEnvironment, IsTheCallersAgainAfterAnError) {
  for (const Mode& mode : kModes) {
    unsigned after = 0;
    const Context context = two_cpus();
    Session session(context, tiny_model(), {});
    {
      const Caller caller(mode);
      try {
        session.feed(session.open(), std::vector<TokenId>{-5}, Outputs::last);
      } catch (const Error&) {
        after = Caller::now();
      }
    }
    EXPECT_EQ(after, mode.mxcsr) << mode.name;
  }
}

TEST(FloatEnvironment, WorkersHaveTheDefault) {
  for (const Mode& mode : kModes) {
    unsigned seen = kDefault, after;
    {
      const Caller caller(mode);
      Threads threads(4);  // the pool begins in this environment
      std::atomic<unsigned> all = kDefault;
      threads.parallel_for(1000, 1, [&](std::int64_t, std::int64_t) {
        const unsigned control = Caller::now() & ~0x3fu;  // without flags
        if (control != kDefault) all = control;
      });
      seen = all;
      after = Caller::now();
    }
    EXPECT_EQ(seen, kDefault) << mode.name;
    EXPECT_EQ(after, mode.mxcsr) << mode.name;
  }
}

}  // namespace
}  // namespace tandem
