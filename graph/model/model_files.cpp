#include "graph/model/model_files.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "core/io/quantization.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/tensor_names.hpp"

namespace tandem {
namespace {

HostTensor without_middle(HostTensor tensor) {
  const Shape& shape = tensor.view.shape;
  if (shape.rank == 3 && shape[1] == 1)
    tensor.view = {tensor.view.data, tensor.view.dtype, Shape{shape[0], shape[2]}};
  return tensor;
}

/// Bytes of a file as the matrix that they are. Where scales cannot be read in place (the format does not
/// promise alignment), a copy.
HostTensor as_q4(HostTensor bytes, const Shape& shape) {
  const void* data = bytes.view.data;
  if (reinterpret_cast<std::uintptr_t>(data) % alignof(f16) == 0) {
    return {ConstTensor(data, DType::q4, shape), bytes.owner};
  }
  const auto size = static_cast<std::size_t>(bytes.view.bytes());
  const std::shared_ptr<std::byte[]> copy(new std::byte[size]);
  std::memcpy(copy.get(), data, size);
  return {ConstTensor(copy.get(), DType::q4, shape), copy};
}

std::optional<Gears> gears_of_directory(const std::filesystem::path& directory, std::int64_t layers) {
  const std::optional<std::string> text = load_quantization(directory);
  if (!text) return std::nullopt;
  try {
    const Gears gears = Gears::parse(*text);
    gears.require_layers(layers);
    return gears;
  } catch (const Error& error) {
    fail(ErrorCode::corrupt, "{}: quantization_config: {}", (directory / "config.json").string(),
         error.what());
  }
}

}  // namespace

ModelFiles::ModelFiles(const std::filesystem::path& directory)
    : directory_(directory.string()),
      config_(load_model_config(directory, &notices_)),
      checkpoint_(Checkpoint::open(directory)),
      gears_(gears_of_directory(directory, config_.num_hidden_layers)) {
  // A directory in gears says itself whether its head is tied, and may have a tied one in another type.
  if (!config_.tie_word_embeddings || quantized() || !has_other_head()) return;
  config_.tie_word_embeddings = false;
  notices_.push_back(
      fmt::format("{}: {} differs from the embedding: it is used, though config.json ties them", directory_,
                  first_of("lm_head.weight")));
}

/// The name of the tensor in the files; empty where there is none.
std::string ModelFiles::first_of(const std::string& weight) const {
  for (const std::string& name : tensor_names(weight)) {
    if (checkpoint_.contains(name)) return name;
  }
  return "";
}

bool ModelFiles::has_other_head() const {
  const std::string head = first_of("lm_head.weight"), embedding = first_of("embed_tokens.weight");
  if (head.empty() || embedding.empty()) return false;
  const TensorInfo &a = checkpoint_.info(head), &b = checkpoint_.info(embedding);
  if (a.dtype != b.dtype || a.dims != b.dims) return true;
  const HostTensor left = checkpoint_.tensor(head), right = checkpoint_.tensor(embedding);
  return std::memcmp(left.view.data, right.view.data, static_cast<std::size_t>(a.bytes)) != 0;
}

std::string ModelFiles::Found::in_file() const { return packed ? name + std::string(kQ4Suffix) : name; }

Graph ModelFiles::graph(const Gears& asked) const {
  asked.require_layers(config_.num_hidden_layers);
  const auto stored = [&](const Weight& weight) { return stored_gear(weight); };
  return build_model_graph(config_, gears_of(asked, gears_of(gears_.value_or(Gears()), stored)));
}

/// A tied head is the embedding's tensor, unless the model was written with a head of its own.
std::vector<std::string> ModelFiles::candidates(const Weight& weight) const {
  std::vector<std::string> names = tensor_names(weight.name);
  if (!config_.tie_word_embeddings || weight.group != Part::head) return names;
  const std::vector<std::string> embedding = tensor_names("embed_tokens.weight");
  if (!quantized()) return embedding;
  names.insert(names.end(), embedding.begin(), embedding.end());
  return names;
}

ModelFiles::Found ModelFiles::find(const Weight& weight) const {
  const std::vector<std::string> names = candidates(weight);
  for (const std::string& name : names) {
    const Found plain{name, false}, packed{name, true};
    const bool has_packed = weight.group && checkpoint_.contains(packed.in_file());
    if (!has_packed && !checkpoint_.contains(name)) continue;
    if (has_packed && checkpoint_.contains(name)) {
      fail(ErrorCode::mismatch, "{}: tensor '{}' is there twice, in 4 bits and in {}: expected one of them",
           directory_, name, checkpoint_.info(name).dtype);
    }
    return has_packed ? packed : plain;
  }
  fail(ErrorCode::not_found, "{}: tensor '{}' is missing (looked for {})", directory_, weight.name,
       fmt::join(names, ", "));
}

Gear ModelFiles::stored_gear(const Weight& weight) const {
  const Found found = find(weight);
  if (found.packed) return Gear::q4;
  return checkpoint_.info(found.name).dtype == "BF16" ? Gear::bf16 : Gear::f32;
}

void ModelFiles::require_announced(const Weight& weight, const Found& found) const {
  if (found.packed && !quantized()) {
    fail(ErrorCode::mismatch, "{}: tensor '{}' is in 4 bits, but config.json has no quantization_config",
         directory_, found.in_file());
  }
  if (!quantized() || !weight.group) return;
  const std::optional<Gear> own = gears_->of(weight.layer, *weight.group);
  if (!own || is_4_bit(*own) == found.packed) return;
  fail(ErrorCode::mismatch, "{}: config.json has tensor '{}' in {}, but it is stored in {}", directory_,
       weight.name, tandem::name(*own), found.packed ? "4 bits" : checkpoint_.info(found.name).dtype);
}

void ModelFiles::require_shape(const Weight& weight, const std::string& name) const {
  const TensorInfo& info = checkpoint_.info(name);
  const auto as_dims = [](const Shape& shape) {
    std::vector<std::int64_t> dims;
    for (int i = 0; i < shape.rank; ++i) dims.push_back(shape[i]);
    return dims;
  };
  // More dimensions than a Shape has are unsupported, which whoever reads the tensor says.
  if (std::ssize(info.dims) > Shape::kMaxRank || info.dims == as_dims(weight.shape) ||
      info.dims == as_dims(stored_shape(weight))) {
    return;
  }
  fail(ErrorCode::mismatch, "{}: tensor '{}' is [{}], the configuration asks for {}",
       checkpoint_.file_of(name).path().string(), name, fmt::join(info.dims, ", "), to_string(weight.shape));
}

const TensorInfo& ModelFiles::info(const Weight& weight) const {
  const Found found = find(weight);
  require_announced(weight, found);
  const TensorInfo& info = checkpoint_.info(found.in_file());
  if (!found.packed) {
    require_shape(weight, found.name);
    return info;
  }
  const SafetensorsFile& file = checkpoint_.file_of(found.in_file());
  require_quantization(file.metadata(), file.path().string());
  const std::int64_t bytes = storage_bytes(DType::q4, checked_elements(weight.shape, "weight"));
  if (info.dtype != "U8" || info.dims != std::vector<std::int64_t>{bytes} ||
      weight.shape[1] % kQ4Block != 0) {
    fail(ErrorCode::mismatch, "{}: tensor '{}' is {} [{}], expected U8 [{}] for {} in 4 bits", directory_,
         found.in_file(), info.dtype, fmt::join(info.dims, ", "), bytes, to_string(weight.shape));
  }
  return info;
}

WeightData ModelFiles::data(const Weight& weight) const {
  info(weight);  // refuses what must not be read
  const Found found = find(weight);
  HostTensor tensor = checkpoint_.tensor(found.in_file());
  return found.packed ? as_q4(std::move(tensor), weight.shape) : without_middle(std::move(tensor));
}

}  // namespace tandem
