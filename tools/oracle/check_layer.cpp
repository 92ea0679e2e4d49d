#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/io/json.hpp"
#include "tools/oracle/check.hpp"
#include "tools/oracle/layer_run.hpp"
#include "tools/oracle/oracle_values.hpp"

namespace tandem::tools {
namespace {

/// Measured between transformers in float32 and float64: 2 to 4e-7 after 5 and after 512 tokens.
constexpr double kShortTolerance = 1e-6;
constexpr double kLongTolerance = 2e-6;
/// transformers' chunked path is itself up to 1.5e-6 from float64.
constexpr double kChunkedTolerance = 5e-6;

constexpr std::int64_t kLongChunk = 64;
constexpr const char* kNames[] = {"xc", "xcv", "z", "a", "b", "beta", "g", "q", "k", "on", "onn", "out"};

/// Values of the wanted tokens by name, collected while steps run.
class Collector {
 public:
  explicit Collector(std::vector<std::int64_t> tokens) : tokens_(std::move(tokens)) {}

  void at(std::int64_t first_token) { first_ = first_token; }

  void see(const Value& value, const ConstTensor& host) {
    const std::vector<double> all = to_doubles(host);
    for (std::int64_t token : tokens_) {
      const std::int64_t row = token - first_;
      if (row < 0 || row >= host.rows()) continue;
      const auto begin = all.begin() + row * value.width;
      found_[key(value.name, token)].assign(begin, begin + value.width);
    }
  }
  const std::vector<double>& get(const std::string& name, std::int64_t token) {
    return found_[key(name, token)];
  }

 private:
  static std::string key(const std::string& name, std::int64_t token) {
    return name + ".t" + std::to_string(token);
  }

  std::vector<std::int64_t> tokens_;
  std::int64_t first_ = 0;
  std::map<std::string, std::vector<double>> found_;
};

class LayerCheck {
 public:
  LayerCheck(const GeneratedLayer& layer, LayerRun& run, OracleReport& report)
      : layer_(layer), run_(run), report_(report), oracle_(layer.folder), x_(generated_inputs(layer)) {}

  void all() {
    Collector values({0, layer_.tokens - 1});
    take(1, &values);
    compare_state("t0", kShortTolerance);
    take(layer_.tokens - 1, &values);
    const std::string last = "t" + std::to_string(layer_.tokens - 1);
    for (const char* name : kNames) {
      compare("f64." + std::string(name) + ".t0", values.get(name, 0), kShortTolerance);
      compare("f64." + std::string(name) + "." + last, values.get(name, layer_.tokens - 1), kShortTolerance);
    }
    compare_state(last, kShortTolerance);
    compare("f64.out", out_, kShortTolerance);
    compare("hf_f32.out", out_, kShortTolerance);
    while (run_.tokens() < layer_.long_tokens)
      take(std::min(kLongChunk, layer_.long_tokens - run_.tokens()), nullptr);
    compare_state("t" + std::to_string(layer_.long_tokens - 1), kLongTolerance);
    compare_transformers_state();
    const std::vector<double> last8(
        out_.end() - std::min<std::ptrdiff_t>(8 * layer_.hidden, std::ssize(out_)), out_.end());
    compare("f64.out_long_last8", last8, kLongTolerance);
    compare("hf_f32.out_long_last8", last8, kLongTolerance);
    compare("hf_f32_chunked.out_long_last8", last8, kChunkedTolerance);
  }

 private:
  void take(std::int64_t tokens, Collector* collector) {
    const std::int64_t first = run_.tokens();
    const auto x = std::span(x_).subspan(static_cast<std::size_t>(first * layer_.hidden),
                                         static_cast<std::size_t>(tokens * layer_.hidden));
    Probe probe;
    if (collector != nullptr) {
      collector->at(first);
      probe = [&](const Node&, const Value& value, const ConstTensor& host) { collector->see(value, host); };
    }
    const std::vector<float> out = run_.step(x, probe);
    out_.insert(out_.end(), out.begin(), out.end());
  }

  void compare(const std::string& name, const std::vector<double>& ours, double tolerance) {
    if (oracle_.contains(name)) report_.compare(name, ours, oracle_.values(name), tolerance);
  }

  void compare_state(const std::string& when, double tolerance) {
    const std::vector<double> state = to_doubles(run_.state().piece("recurrent"), run_.real());
    const std::int64_t matrix = layer_.key_dim * layer_.value_dim;
    std::vector<double> squares;
    for (std::int64_t h = 0; h < layer_.value_heads; ++h) {
      double sum = 0;
      for (std::int64_t i = 0; i < matrix; ++i) {
        const double element = state[static_cast<std::size_t>(h * matrix + i)];
        sum += element * element;
      }
      squares.push_back(sum);
    }
    compare("f64.S." + when + ".heads", heads_of(state), tolerance);
    compare("f64.S." + when + ".sumsq", squares, tolerance);
  }

  std::vector<double> heads_of(const std::vector<double>& state) const {
    const std::int64_t matrix = layer_.key_dim * layer_.value_dim;
    std::vector<double> heads;
    for (std::int64_t h : layer_.state_heads) {
      heads.insert(heads.end(), state.begin() + h * matrix, state.begin() + (h + 1) * matrix);
    }
    return heads;
  }

  /// What transformers' cache held at the end, which is after the long run, whatever the name of S says.
  void compare_transformers_state() {
    compare("hf_f32.S.t4.heads", heads_of(to_doubles(run_.state().piece("recurrent"), run_.real())),
            kLongTolerance);
    if (!oracle_.contains("hf_f32.conv_state")) return;
    // [channels, K], with one column more than is needed: the newest K - 1 count.
    const std::vector<double> ours = to_doubles(run_.state().piece("conv"), run_.real()),
                              all = oracle_.values("hf_f32.conv_state");
    if (std::ssize(all) != layer_.channels() * layer_.conv_kernel) {
      return report_.compare("hf_f32.conv_state", ours, all,
                             kLongTolerance);  // reported as a wrong number of elements
    }
    std::vector<double> theirs(ours.size());
    for (std::int64_t c = 0; c < layer_.channels(); ++c) {
      for (std::int64_t j = 0; j + 1 < layer_.conv_kernel; ++j) {
        theirs[static_cast<std::size_t>(j * layer_.channels() + c)] =
            all[static_cast<std::size_t>(c * layer_.conv_kernel + j + 1)];
      }
    }
    report_.compare("hf_f32.conv_state", ours, theirs, kLongTolerance);
  }

  const GeneratedLayer& layer_;
  LayerRun& run_;
  OracleReport& report_;
  OracleValues oracle_;
  std::vector<float> x_;
  std::vector<double> out_;
};

}  // namespace

bool is_layer_oracle(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "oracle.json";
  return find_member(read_json_file(file, std::int64_t{16} << 20), "kh", file.string()) != nullptr;
}

void check_layer_oracle(const std::filesystem::path& folder, const Context& context, const std::string& place,
                        OracleReport& report) {
  const GeneratedLayer layer = read_generated_layer(folder);
  Threads threads(0);
  LayerRun run(context, place, make_generated_model(layer, threads), std::max(kLongChunk, layer.tokens));
  LayerCheck(layer, run, report).all();
}

}  // namespace tandem::tools
