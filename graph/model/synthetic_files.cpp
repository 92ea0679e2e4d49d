#include "graph/model/synthetic_files.hpp"

#include "core/error.hpp"
#include "core/float_environment.hpp"
#include "core/io/checkpoint_writer.hpp"
#include "core/io/new_directory.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/tensor_names.hpp"

namespace tandem {
namespace {

constexpr std::int64_t kGrain = 1 << 14;

NewTensor to_file(const Weight& weight, const RandomTensor& values, Threads& threads) {
  const auto element = static_cast<std::int64_t>(size_of(values.dtype));
  const auto fill = [values, element, &threads](std::int64_t begin, std::int64_t end, void* to) {
    threads.parallel_for(end - begin, kGrain, [&](std::int64_t first, std::int64_t last) {
      write_random(values, begin + first, begin + last, static_cast<std::byte*>(to) + first * element);
    });
  };
  return {new_tensor_name(weight.name), values.dtype, stored_shape(weight), fill};
}

}  // namespace

std::int64_t write_synthetic_model(const SyntheticSpec& spec, const std::filesystem::path& directory,
                                   Threads& threads, const SyntheticFilesOptions& options) {
  const FloatEnvironment environment;
  const ModelConfig config = synthetic_config(spec);
  const Graph graph = build_model_graph(config);
  std::vector<NewTensor> tensors;
  std::int64_t total = 0;
  for (const Weight& weight : graph.weights()) {
    tensors.push_back(to_file(weight, synthetic_weight(spec, config, weight), threads));
    total += tensors.back().bytes();
  }
  NewDirectory target(directory);
  target.require_room(total);
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
