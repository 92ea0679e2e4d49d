#include "graph/model_files.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "graph/qwen35.hpp"
#include "graph/tensor_names.hpp"

namespace tandem {
namespace {

/// The convolution's weight is stored [C, 1, K].
HostTensor without_middle(HostTensor tensor) {
  const Shape& shape = tensor.view.shape;
  if (shape.rank == 3 && shape[1] == 1)
    tensor.view = {tensor.view.data, tensor.view.dtype, Shape{shape[0], shape[2]}};
  return tensor;
}

/// f16 is widened; what has another type is refused when it is read.
Gear gear_of_file(const TensorInfo& info) { return info.dtype == "BF16" ? Gear::bf16 : Gear::f32; }

}  // namespace

ModelFiles::ModelFiles(const std::filesystem::path& directory)
    : directory_(directory.string()),
      config_(load_model_config(directory)),
      checkpoint_(Checkpoint::open(directory)) {}

Graph ModelFiles::graph(const Gears& asked) const {
  asked.require_layers(config_.num_hidden_layers);
  return build_model_graph(config_,
                           gears_of(asked, [&](const Weight& weight) { return gear_of_file(info(weight)); }));
}

std::string ModelFiles::stored_name(const Weight& weight) const {
  const bool tied_head = config_.tie_word_embeddings && weight.group == Part::head;
  const std::vector<std::string> candidates = tensor_names(tied_head ? "embed_tokens.weight" : weight.name);
  const auto found = std::find_if(candidates.begin(), candidates.end(),
                                  [&](auto& name) { return checkpoint_.contains(name); });
  if (found != candidates.end()) return *found;
  fail(ErrorCode::not_found, "{}: tensor '{}' is missing (looked for {})", directory_, weight.name,
       fmt::join(candidates, ", "));
}

const TensorInfo& ModelFiles::info(const Weight& weight) const {
  return checkpoint_.info(stored_name(weight));
}

WeightData ModelFiles::data(const Weight& weight) const {
  return without_middle(checkpoint_.tensor(stored_name(weight)));
}

}  // namespace tandem
