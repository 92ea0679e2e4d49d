#include "graph/gguf_model.hpp"

#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/io/gguf_config.hpp"
#include "core/threads.hpp"
#include "graph/qwen35.hpp"

namespace tandem {
namespace {

/// Blocks that a thread takes together.
constexpr std::int64_t kBlockGrain = 4096;

bool keeps_q4(const KeepQ4& keep_q4, const Weight& weight) {
  return keep_q4 && weight.kind == WeightKind::matrix && keep_q4(weight);
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

GgufModelFile::GgufModelFile(const std::filesystem::path& path)
    : GgufModelFile(std::make_shared<const GgufFile>(path)) {}

GgufModelFile::GgufModelFile(std::shared_ptr<const GgufFile> file)
    : config_(gguf_model_config(*file)),
      graph_(build_model_graph(config_)),
      weights_(std::move(file), config_) {}

GgufWeights::Stored GgufModelFile::checked(const Weight& weight, const KeepQ4& keep_q4) const {
  GgufWeights::Stored stored = weights_.stored(weight.name, keeps_q4(keep_q4, weight));
  if (stored.shape != weight.shape) {
    fail(ErrorCode::mismatch, "{}: tensor '{}' is {}, the configuration asks for {}", file().path().string(),
         stored.tensor, to_string(stored.shape), to_string(weight.shape));
  }
  return stored;
}

std::shared_ptr<const Model> GgufModelFile::open(const WeightProgress& progress,
                                                 const KeepQ4& keep_q4) const {
  Threads threads(0);
  const auto parallel_for = [&](std::int64_t n, const std::function<void(std::int64_t, std::int64_t)>& body) {
    threads.parallel_for(n, kBlockGrain, body);
  };
  const auto source = [&](const Weight& weight) -> WeightData {
    checked(weight, keep_q4);  // before memory is taken for it
    return weights_.load(weight.name, keeps_q4(keep_q4, weight), parallel_for);
  };
  return std::make_shared<const Model>(config_, graph_, source, progress);
}

WeightSizes GgufModelFile::sizes(const KeepQ4& keep_q4) const {
  WeightSizes sizes;
  for (const Weight& weight : graph_.weights()) {
    const DType type = weight.kind == WeightKind::vector ? DType::f32 : checked(weight, keep_q4).dtype;
    sizes.push_back({storage_bytes(type, weight.shape.elements()), true});
  }
  return sizes;
}

std::vector<GgufModelFile::Use> GgufModelFile::uses(const KeepQ4& keep_q4) const {
  std::map<std::pair<std::string_view, GgufForm>, Use> uses;
  for (const Weight& weight : graph_.weights()) {
    const GgufWeights::Stored stored = checked(weight, keep_q4);
    Use& use = uses.try_emplace({stored.type, stored.form}, Use{stored.type, stored.form}).first->second;
    ++use.tensors;
    use.bytes += stored.bytes;
  }
  std::vector<Use> list;
  for (const auto& use : uses) list.push_back(use.second);
  return list;
}

std::vector<std::string> GgufModelFile::notices() const {
  std::set<std::string, std::less<>> used;
  for (const Weight& weight : graph_.weights()) used.insert(gguf_place(weight.name).tensor);
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

std::shared_ptr<const Model> open_gguf_model(const std::filesystem::path& path,
                                             const WeightProgress& progress, const KeepQ4& keep_q4) {
  return GgufModelFile(path).open(progress, keep_q4);
}

}  // namespace tandem
