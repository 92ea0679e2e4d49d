#include "graph/model/gguf_model.hpp"

#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/io/gguf_config.hpp"
#include "core/threads.hpp"
#include "graph/model/qwen35.hpp"

namespace tandem {
namespace {

/// Blocks that a thread takes together.
constexpr std::int64_t kBlockGrain = 4096;

bool keeps_q4(const Weight& weight) { return weight.kind == WeightKind::matrix && is_4_bit(weight.gear); }

/// Quantised, and no Q4_0: its values become f32 unless they are quantised again.
bool loses_its_type(const GgufWeights::Stored& stored) {
  return stored.form == GgufForm::dequantised && stored.type != "F16";
}

/// N of "blk.N.", or -1.
std::int64_t layer_of(std::string_view tensor) {
  constexpr std::string_view kPrefix = "blk.";
  std::int64_t layer = -1;
  if (tensor.starts_with(kPrefix)) {
    std::from_chars(tensor.data() + kPrefix.size(), tensor.data() + tensor.size(), layer);
  }
  return layer;
}

}  // namespace

GgufModelFile::GgufModelFile(const std::filesystem::path& path, const GgufGears& gears)
    : GgufModelFile(std::make_shared<const GgufFile>(path), gears) {}

GgufModelFile::GgufModelFile(std::shared_ptr<const GgufFile> file, const GgufGears& gears)
    : config_(gguf_model_config(*file)), weights_(std::move(file), config_) {
  gears.asked.require_layers(config_.num_hidden_layers);
  graph_ = build_model_graph(config_, gears_of(gears.asked, gear_of(gears)));
}

/// A tied head has the embedding's values.
std::string GgufModelFile::stored_name(const Weight& weight) const {
  return config_.tie_word_embeddings && weight.group == Part::head ? "embed_tokens.weight" : weight.name;
}

GearOf GgufModelFile::gear_of(const GgufGears& gears) const {
  return [this, requantize = gears.requantize](const Weight& weight) {
    // A tied head that nothing was asked for is the embedding itself, which is never in 4 bits.
    const bool may_be_q4 = weight.group && stored_name(weight) == weight.name;
    const GgufWeights::Stored stored = weights_.stored(stored_name(weight), may_be_q4);
    if (stored.dtype == DType::q4) return Gear::q4;
    if (stored.dtype == DType::bf16) return Gear::bf16;
    const bool fits = weight.shape[1] % kQ4Block == 0;
    return may_be_q4 && requantize && fits && loses_its_type(stored) ? Gear::q4 : Gear::f32;
  };
}

GgufWeights::Stored GgufModelFile::checked(const Weight& weight) const {
  GgufWeights::Stored stored = weights_.stored(stored_name(weight), keeps_q4(weight));
  if (stored.shape != weight.shape) {
    fail(ErrorCode::mismatch, "{}: tensor '{}' is {}, the configuration asks for {}", file().path().string(),
         stored.tensor, to_string(stored.shape), to_string(weight.shape));
  }
  return stored;
}

std::shared_ptr<const Model> GgufModelFile::open(const WeightProgress& progress) const {
  Threads threads(0);
  const auto parallel_for = [&](std::int64_t n, const std::function<void(std::int64_t, std::int64_t)>& body) {
    threads.parallel_for(n, kBlockGrain, body);
  };
  const auto source = [&](const Weight& weight) -> WeightData {
    checked(weight);  // before memory is taken for it
    return weights_.load(stored_name(weight), keeps_q4(weight), parallel_for);
  };
  return std::make_shared<const Model>(config_, graph_, source, progress);
}

WeightSizes GgufModelFile::sizes() const {
  WeightSizes sizes;
  for (const Weight& weight : graph_.weights()) {
    checked(weight);
    const DType type = weight.kind == WeightKind::vector ? DType::f32 : weight_dtype(weight.gear);
    sizes.push_back({storage_bytes(type, weight.shape.elements()), true});
  }
  return sizes;
}

std::vector<GgufModelFile::Use> GgufModelFile::uses() const {
  std::map<std::pair<std::string_view, GgufForm>, Use> uses;
  for (const Weight& weight : graph_.weights()) {
    const GgufWeights::Stored stored = checked(weight);
    const bool matrix = weight.kind == WeightKind::matrix;
    GgufForm form = stored.form;
    if (keeps_q4(weight) && form != GgufForm::repacked) form = GgufForm::requantised;
    if (matrix && weight.gear == Gear::bf16 && stored.dtype != DType::bf16) form = GgufForm::rounded;
    Use& use = uses.try_emplace({stored.type, form}, Use{stored.type, form}).first->second;
    ++use.tensors;
    use.bytes += stored.bytes;
  }
  std::vector<Use> list;
  for (const auto& use : uses) list.push_back(use.second);
  return list;
}

std::vector<std::string> GgufModelFile::notices() const {
  std::set<std::string, std::less<>> used;
  for (const Weight& weight : graph_.weights()) used.insert(gguf_place(stored_name(weight)).tensor);
  if (config_.tie_word_embeddings) used.insert("output.weight");  // a copy of the embedding, if it is there
  std::int64_t predicting = 0, others = 0;
  std::string first;
  for (const auto& tensor : file().tensors()) {
    if (used.contains(tensor.first)) continue;
    const bool behind = layer_of(tensor.first) >= config_.num_hidden_layers;
    if (!behind && others == 0) first = tensor.first;
    ++(behind ? predicting : others);
  }
  std::vector<std::string> notices;
  if (const std::int64_t extra = gguf_extra_layers(file()); extra > 0 || predicting > 0) {
    notices.push_back(
        fmt::format("{} tensors of {} layers for multi-token prediction are not used", predicting, extra));
  }
  if (others > 0)
    notices.push_back(fmt::format("{} more tensors are not used, '{}' the first", others, first));
  return notices;
}

std::string to_text(const GgufModelFile::Use& use) {
  return fmt::format("{} tensor{} of type {}, {} bytes: {}", use.tensors, use.tensors == 1 ? "" : "s",
                     use.type, use.bytes, name(use.form));
}

}  // namespace tandem
