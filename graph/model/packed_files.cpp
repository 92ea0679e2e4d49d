#include "graph/model/packed_files.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/error.hpp"
#include "core/float_environment.hpp"
#include "core/io/checkpoint_writer.hpp"
#include "core/io/mapped_file.hpp"
#include "core/io/new_directory.hpp"
#include "core/io/quantization.hpp"
#include "graph/model/convert.hpp"
#include "graph/model/model_files.hpp"
#include "graph/model/tensor_names.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// What a model has beside its weights and is of use with other ones.
constexpr const char* kCompanions[] = {"config.json",        "generation_config.json",
                                       "tokenizer.json",     "tokenizer_config.json",
                                       "vocab.json",         "merges.txt",
                                       "added_tokens.json",  "special_tokens_map.json",
                                       "chat_template.json", "chat_template.jinja"};
constexpr std::int64_t kMaxCompanionBytes = 256 << 20;

void copy_companions(const fs::path& from, const fs::path& to) {
  for (const char* name : kCompanions) {
    std::error_code ignored;
    if (!fs::exists(from / name, ignored)) continue;
    const std::string content = read_text_file(from / name, kMaxCompanionBytes);
    write_file_atomically(to / name, std::as_bytes(std::span(content)));
  }
}

/// A vector, or a matrix whose gear says nothing else, goes into the file as it is.
bool stays(const Weight& weight, const WeightData& data) {
  const bool in_gear = data.view.dtype == weight_dtype(weight.gear) ||
                       (data.view.dtype == DType::f16 && weight.gear == Gear::f32);
  return weight.kind == WeightKind::vector || in_gear;
}

/// Writes tensors one after the other; the values of the one that is being written are all that it holds.
class Packer {
 public:
  Packer(const PackSource& source, Threads& threads) : source_(source), threads_(threads) {}

  void watch(std::function<void()> watch) { converter_.watch(watch); }

  NewTensor add(const Weight& weight) {
    const WeightData data = source_.data(weight);
    require_convertible(weight, data.view);
    const bool as_it_is = stays(weight, data);
    const DType type = as_it_is ? data.view.dtype : weight_dtype(weight.gear);
    const std::int64_t bytes = storage_bytes(type, weight.shape.elements());
    PackedGroup& group = group_of(weight);
    ++group.tensors;
    group.bytes_before += source_.bytes(weight);
    group.bytes_after += bytes;
    const std::string name = source_.name(weight) + (type == DType::q4 ? std::string(kQ4Suffix) : "");
    const Shape shape = type == DType::q4 ? Shape{bytes} : stored_shape(weight);
    const auto element = type == DType::q4 ? 1 : static_cast<std::int64_t>(size_of(type));
    return {name, type == DType::q4 ? DType::u8 : type, shape,
            [this, &weight, as_it_is, element, bytes](std::int64_t begin, std::int64_t end, void* to) {
              if (begin == 0) current_ = made(weight, as_it_is);
              std::memcpy(to, static_cast<const std::byte*>(current_.view.data) + begin * element,
                          static_cast<std::size_t>((end - begin) * element));
              if (end * element == bytes) current_ = {};
            }};
  }

  const std::vector<PackedGroup>& groups() const { return groups_; }

 private:
  PackedGroup& group_of(const Weight& weight) {
    const std::string group(weight.group ? name(*weight.group) : "others");
    const std::string gear(weight.group ? name(weight.gear) : "as stored");
    const auto found = std::find_if(groups_.begin(), groups_.end(),
                                    [&](auto& g) { return g.group == group && g.gear == gear; });
    return found == groups_.end() ? groups_.emplace_back(PackedGroup{group, gear}) : *found;
  }

  HostTensor made(const Weight& weight, bool as_it_is) {
    const WeightData data = source_.data(weight);
    const WeightData ready = as_it_is ? data : converter_.convert(weight, data);
    if (!as_it_is) group_of(weight).error += converter_.error();
    if (!ready.random) return {ready.view, ready.owner};
    constexpr std::int64_t kGrain = 1 << 14;
    return make_host_tensor("model", *ready.random, [&](std::int64_t n, const auto& body) {
      threads_.parallel_for(n, kGrain, body);
    });
  }

  const PackSource& source_;
  Threads& threads_;
  WeightConverter converter_{threads_};
  HostTensor current_;
  std::vector<PackedGroup> groups_;
};

}  // namespace

PackSource pack_source(const fs::path& directory, const Gears& gears) {
  const auto files = std::make_shared<const ModelFiles>(directory);
  if (files->quantized()) {
    fail(ErrorCode::invalid_argument, "'{}' is in 4 bits already; start from the model that it was made from",
         directory.string());
  }
  const auto name = [files](const Weight& weight) {
    const bool own_head = weight.group == Part::head;
    return own_head ? new_tensor_name(weight.name) : files->stored_name(weight);
  };
  const auto data = [files](const Weight& weight) { return files->data(weight); };
  const auto bytes = [files](const Weight& weight) { return files->info(weight).bytes; };
  const auto write_config = [directory](const fs::path& to) { copy_companions(directory, to); };
  return {files->config(), files->graph(gears), name, data, bytes, write_config};
}

PackSource pack_source(const SyntheticSpec& spec, const Gears& gears) {
  const ModelConfig config = synthetic_config(spec);
  const auto name = [](const Weight& weight) { return new_tensor_name(weight.name); };
  const auto data = [=](const Weight& weight) { return synthetic_data(spec, config, weight); };
  const auto bytes = [=](const Weight& weight) { return synthetic_weight(spec, config, weight).bytes(); };
  const auto write_config = [=](const fs::path& to) { write_model_config(to, config, spec.dtype); };
  return {config, build_model_graph(config, synthetic_gears(spec, gears)), name, data, bytes, write_config};
}

std::vector<PackedGroup> write_packed_model(const PackSource& source, const Gears& gears,
                                            const fs::path& directory, Threads& threads,
                                            const PackOptions& options) {
  const FloatEnvironment environment;
  Packer packer(source, threads);
  std::vector<NewTensor> tensors;
  std::int64_t total = 0, done = 0;
  for (const Weight& weight : source.graph.weights()) {
    tensors.push_back(packer.add(weight));
    total += tensors.back().bytes();
  }
  const auto progress = [&](std::int64_t bytes) {
    done += bytes;
    if (options.progress) options.progress(done, total);
  };
  packer.watch([&] { progress(0); });
  NewDirectory target(directory);
  target.require_room(total);
  source.write_config(target.path());
  write_quantization(target.path(), gears.to_text(), source.config.tie_word_embeddings);
  write_checkpoint(target.path(), std::move(tensors), options.shard_bytes, progress, quantization_metadata());
  target.publish();
  return packer.groups();
}

}  // namespace tandem
