#include "graph/synthetic_files.hpp"

#include "core/error.hpp"
#include "core/io/checkpoint_writer.hpp"
#include "core/io/new_directory.hpp"
#include "graph/qwen35.hpp"

namespace tandem {
namespace {

constexpr std::int64_t kGrain = 1 << 14;
/// Headers, index and configuration: far more than they take.
constexpr std::int64_t kBesidesBytes = 16 << 20;

/// As a save of the text model alone has it.
std::string stored_name(const std::string& name) {
  return name.starts_with("lm_head.") ? name : "model." + name;
}

/// The convolution's weight is stored [C, 1, K].
Shape stored_shape(const Weight& weight) {
  const Shape& shape = weight.shape;
  return weight.name.ends_with("conv1d.weight") ? Shape{shape[0], 1, shape[1]} : shape;
}

NewTensor to_file(const Weight& weight, const RandomTensor& values, Threads& threads) {
  const auto element = static_cast<std::int64_t>(size_of(values.dtype));
  const auto fill = [values, element, &threads](std::int64_t begin, std::int64_t end, void* to) {
    threads.parallel_for(end - begin, kGrain, [&](std::int64_t first, std::int64_t last) {
      write_random(values, begin + first, begin + last, static_cast<std::byte*>(to) + first * element);
    });
  };
  return {stored_name(weight.name), values.dtype, stored_shape(weight), fill};
}

void require_room(const std::filesystem::path& directory, std::int64_t bytes) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(directory, error);
  const auto needed = static_cast<std::uint64_t>(bytes + kBesidesBytes);
  if (error || space.available >= needed) return;  // one that does not tell may have it
  fail(ErrorCode::io, "no room for the model: it takes {}, the file system of '{}' has {} left",
       human_bytes(needed), directory.parent_path().string(), human_bytes(space.available));
}

}  // namespace

std::int64_t write_synthetic_model(const SyntheticSpec& spec, const std::filesystem::path& directory,
                                   Threads& threads, const SyntheticFilesOptions& options) {
  const ModelConfig config = synthetic_config(spec);
  const Graph graph = build_model_graph(config);
  std::vector<NewTensor> tensors;
  std::int64_t total = 0;
  for (const Weight& weight : graph.weights()) {
    tensors.push_back(to_file(weight, synthetic_weight(spec, config, weight), threads));
    total += tensors.back().bytes();
  }
  NewDirectory target(directory);
  require_room(target.path(), total);
  std::int64_t done = 0;
  const auto progress = [&](std::int64_t bytes) {
    done += bytes;
    if (options.progress) options.progress(done, total);
  };
  write_model_config(target.path(), config, spec.dtype);
  write_checkpoint(target.path(), std::move(tensors), options.shard_bytes, progress);
  target.publish();
  return total;
}

}  // namespace tandem
