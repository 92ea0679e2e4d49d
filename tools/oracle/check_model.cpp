#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/io/json.hpp"
#include "core/io/mapped_file.hpp"
#include "core/numerics64.hpp"
#include "core/text/tokenizer.hpp"
#include "graph/session/generate.hpp"
#include "state/layer_state.hpp"
#include "tools/oracle/check.hpp"
#include "tools/oracle/oracle_values.hpp"

namespace tandem::tools {
namespace {

constexpr double kNllTolerance = 1e-6;  ///< nats, absolute, on the mean
constexpr double kValueTolerance =
    2e-6;  ///< logits and hidden states; transformers itself is within 3.6e-7 of float64
constexpr double kStateTolerance = 5e-6;
constexpr std::int64_t kChunk = 64;
constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20;

template <class T>
std::int64_t count_different(const std::vector<T>& ours, const std::vector<T>& theirs) {
  std::int64_t different =
      static_cast<std::int64_t>(std::max(ours.size(), theirs.size()) - std::min(ours.size(), theirs.size()));
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i)
    different += ours[i] != theirs[i] ? 1 : 0;
  return different;
}

class ModelCheck {
 public:
  ModelCheck(const std::filesystem::path& folder, Tokenizer tokenizer, std::shared_ptr<const Model> model,
             const Context& context, const std::string& place, OracleReport& report)
      : folder_(folder),
        json_(read_json_file(folder / "oracle.json", kMaxBytes)),
        oracle_(folder),
        tokenizer_(std::move(tokenizer)),
        ids_(oracle_.integers("input_ids")),
        report_(report),
        session_(context, std::move(model), session_options(place)) {}

  void all() {
    tokenizer();
    text_through_the_model();
    states();
    greedy();
  }

 private:
  SessionOptions session_options(const std::string& place) const {
    SessionOptions options;
    options.place = place;
    options.sequences = 1;
    options.context_tokens = static_cast<std::int64_t>(ids_.size());
    options.limits = {kChunk, kChunk};
    return options;
  }

  void tokenizer() {
    std::int64_t cases = 0, different = 0;
    for (const Json& item : json_.value("tokenize", Json::array())) {
      ++cases;
      different +=
          tokenizer_.encode(item.at("text").get<std::string>()) != item.at("ids").get<std::vector<TokenId>>()
              ? 1
              : 0;
    }
    if (cases > 0) report_.exact("tokenizer cases", cases, different);
    const std::filesystem::path text = folder_ / "heldout.txt";
    if (!std::filesystem::exists(text)) return;
    std::vector<TokenId> ids = tokenizer_.encode(read_text_file(text, kMaxBytes));
    ids.resize(std::min(ids.size(), ids_.size()));
    report_.exact("heldout ids", static_cast<std::int64_t>(ids_.size()), count_different(ids, ids_));
  }

  /// Rows of one value at the oracle's positions, for the chunk that begins at `first`.
  void keep(const ConstTensor& host, std::int64_t first, std::vector<std::vector<double>>& kept) const {
    const std::vector<std::int32_t> positions = oracle_.integers("positions");
    kept.resize(positions.size());
    const std::vector<double> all = to_doubles(host);
    for (std::size_t p = 0; p < positions.size(); ++p) {
      const std::int64_t row = positions[p] - first;
      if (row < 0 || row >= host.rows()) continue;
      const auto begin = all.begin() + row * host.row_elements();
      kept[p].insert(kept[p].end(), begin, begin + host.row_elements());
    }
  }

  void text_through_the_model() {
    sequence_ = session_.open();
    const int last_layer = static_cast<int>(session_.model().config().num_hidden_layers) - 1;
    std::vector<std::vector<double>> hidden, logits;
    std::vector<double> nll;
    std::vector<std::int32_t> best;
    for (std::size_t begin = 0; begin < ids_.size(); begin += kChunk) {
      const std::size_t count = std::min<std::size_t>(kChunk, ids_.size() - begin);
      const SequenceTokens step[] = {{sequence_, std::span(ids_).subspan(begin, count), Outputs::all}};
      const auto first = static_cast<std::int64_t>(begin);
      const Probe probe = [&](const Node&, const Value& value, const ConstTensor& host) {
        // After the last layer the oracle has the final norm's output instead.
        const bool wanted = (value.name == "hidden" && value.layer != last_layer) || value.name == "final";
        if (wanted) keep(host, first, hidden);
        if (value.name == "logits") keep(host, first, logits), add_nll(to_doubles(host), begin, nll, best);
      };
      session_.scheduler().step(step, probe);
    }
    compare("hidden_at_positions", hidden);
    compare("logits_at_positions", logits);
    compare_nll(nll);
    if (oracle_.contains("argmax"))
      report_.exact("argmax", std::ssize(best), count_different(best, oracle_.integers("argmax")));
  }

  void add_nll(const std::vector<double>& logits, std::size_t first, std::vector<double>& nll,
               std::vector<std::int32_t>& best) const {
    const auto vocab = static_cast<std::size_t>(session_.vocab_size());
    for (std::size_t row = 0; row * vocab < logits.size(); ++row) {
      const std::span<const double> one = std::span(logits).subspan(row * vocab, vocab);
      const auto highest = std::max_element(one.begin(), one.end());
      best.push_back(static_cast<std::int32_t>(highest - one.begin()));
      if (first + row + 1 == ids_.size()) return;
      double sum = 0;
      for (double logit : one) sum += exp64(logit - *highest);
      nll.push_back(log64(sum) + *highest - one[static_cast<std::size_t>(ids_[first + row + 1])]);
    }
  }

  void compare_nll(const std::vector<double>& nll) {
    if (oracle_.contains("nll")) report_.compare("nll", nll, oracle_.values("nll"), kValueTolerance);
    double sum = 0;
    for (double x : nll) sum += x;
    const std::optional<double> mean = optional_double(json_, "mean_nll", (folder_ / "oracle.json").string());
    if (mean) report_.absolute("mean_nll", sum / static_cast<double>(nll.size()), *mean, kNllTolerance);
  }

  void compare(const std::string& name, const std::vector<std::vector<double>>& rows) {
    if (!oracle_.contains(name)) return;
    std::vector<double> flat;
    for (const std::vector<double>& row : rows) flat.insert(flat.end(), row.begin(), row.end());
    report_.compare(name, flat, oracle_.values(name), kValueTolerance);
  }

  void states() {
    const StateGeometry& geometry = session_.state().geometry();
    for (std::size_t layer = 0; layer < geometry.layers.size(); ++layer) {
      const LayerState state = export_layer(session_.state(), sequence_, static_cast<int>(layer));
      const std::string prefix = "layer" + std::to_string(layer) + ".";
      if (state.kind == LayerKind::recurrent) {
        compare_state(prefix + "S", to_doubles(state.piece("recurrent"), geometry.real));
        compare_conv(prefix + "conv", to_doubles(state.piece("conv"), geometry.real));
      } else {
        compare_state(prefix + "k_last4",
                      last_positions(to_doubles(state.piece("keys"), geometry.real), state.tokens));
        compare_state(prefix + "v_last4",
                      last_positions(to_doubles(state.piece("values"), geometry.real), state.tokens));
      }
    }
    session_.state().close(sequence_);
  }

  void compare_state(const std::string& name, const std::vector<double>& ours) {
    if (oracle_.contains(name)) report_.compare(name, ours, oracle_.values(name), kStateTolerance);
  }

  /// Ours is [K-1, channels], theirs [channels, K] with one column more than is needed.
  void compare_conv(const std::string& name, const std::vector<double>& ours) {
    if (!oracle_.contains(name)) return;
    const RecurrentDims& dims = session_.state().geometry().recurrent;
    const std::vector<double> all = oracle_.values(name);
    // A folder for another model: reported as a wrong number of elements.
    if (std::ssize(all) != dims.conv_kernel * dims.conv_channels) return compare_state(name, ours);
    std::vector<double> theirs;
    for (std::int64_t j = 1; j < dims.conv_kernel; ++j) {
      for (std::int64_t c = 0; c < dims.conv_channels; ++c)
        theirs.push_back(all[static_cast<std::size_t>(c * dims.conv_kernel + j)]);
    }
    report_.compare(name, ours, theirs, kStateTolerance);
  }

  /// The newest four positions of [kv_heads, tokens, head_dim], or all when there are fewer.
  std::vector<double> last_positions(const std::vector<double>& all, std::int64_t tokens) const {
    const KvDims& dims = session_.state().geometry().kv;
    std::vector<double> result;
    for (std::int64_t h = 0; h < dims.kv_heads; ++h) {
      const auto end = all.begin() + (h + 1) * tokens * dims.head_dim;
      result.insert(result.end(), end - std::min<std::int64_t>(4, tokens) * dims.head_dim, end);
    }
    return result;
  }

  void greedy() {
    std::int64_t tokens = 0, different = 0, texts = 0, wrong_texts = 0;
    for (const Json& item : json_.value("greedy", Json::array())) {
      const auto prompt = item.at("prompt_ids").get<std::vector<TokenId>>();
      const auto expected = item.at("output_ids").get<std::vector<TokenId>>();
      GenerateOptions options;
      options.max_new_tokens = std::ssize(expected);
      const SequenceId sequence = session_.open();
      const Generated result = generate(session_, sequence, prompt, options);
      session_.state().close(sequence);
      tokens += std::ssize(expected);
      different += count_different(result.ids, expected);
      ++texts;
      wrong_texts += tokenizer_.decode(result.ids) != item.at("text").get<std::string>() ? 1 : 0;
    }
    if (texts == 0) return;
    report_.exact("greedy tokens", tokens, different);
    report_.exact("greedy texts", texts, wrong_texts);
  }

  std::filesystem::path folder_;
  Json json_;
  OracleValues oracle_;
  Tokenizer tokenizer_;
  std::vector<TokenId> ids_;
  OracleReport& report_;
  Session session_;
  SequenceId sequence_;
};

}  // namespace

void check_model_oracle(const std::filesystem::path& folder, Tokenizer tokenizer,
                        std::shared_ptr<const Model> model, const Context& context, const std::string& place,
                        OracleReport& report) {
  try {
    ModelCheck(folder, std::move(tokenizer), std::move(model), context, place, report).all();
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::corrupt, "{}: not what a model's oracle.json holds: {}",
         (folder / "oracle.json").string(), error.what());
  }
}

}  // namespace tandem::tools
