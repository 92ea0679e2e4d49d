#include <map>
#include <nlohmann/json.hpp>

#include "core/arithmetic.hpp"
#include "core/io/checkpoint.hpp"
#include "graph/model/model_files.hpp"
#include "graph/model/qwen35.hpp"
#include "graph/model/synthetic.hpp"
#include "tools/command.hpp"
#include "tools/gear_table.hpp"

namespace tandem::tools {
namespace {

struct InspectOptions {
  ModelOptions model;
  bool kernels = false;
  bool json = false;
};

/// What can be told without the weights, which may be absent.
struct Facts {
  std::string model;
  bool synthetic = false;
  ModelConfig config;
  std::int64_t parameters = 0;
  std::int64_t weight_bytes = 0;  ///< in files, or as files would have them; 0 without any
  std::vector<GearRow> gears;     ///< as backends get them
  std::int64_t context = 0;
  std::int64_t recurrent_bytes = 0, conv_bytes = 0, kv_bytes = 0;  ///< a sequence, all layers
  std::optional<std::vector<GgufModelFile::Use>> uses;             ///< of a GGUF file
  std::vector<std::string> notices;
};

std::int64_t weight_bytes(const ModelOptions& model, const ModelConfig& config, const Graph& graph) {
  if (const auto file = model.gguf()) return file->file().total_bytes();
  if (!model.synthetic) {
    const std::filesystem::path directory = model.path();
    return has_weights(directory) ? Checkpoint::open(directory).total_bytes() : 0;
  }
  const SyntheticSpec spec = parse_synthetic_spec(*model.synthetic);
  std::int64_t bytes = 0;
  for (const Weight& weight : graph.weights()) bytes += synthetic_data(spec, config, weight).view.bytes();
  return bytes;
}

Facts gather(const InspectOptions& options) {
  Facts facts;
  facts.model = options.model.name();
  facts.synthetic = options.model.synthetic.has_value();
  facts.config = options.model.config();
  const Graph graph = options.model.graph();
  facts.parameters = parameter_count(graph);
  facts.gears = gear_rows(graph, options.model.sizes(graph));
  if (const auto file = options.model.gguf()) {
    facts.uses = file->uses();
    facts.notices = file->notices();
  }
  facts.weight_bytes = weight_bytes(options.model, facts.config, graph);
  facts.context = options.model.context > 0
                      ? options.model.context
                      : std::min<std::int64_t>(4096, facts.config.max_position_embeddings);
  const StateGeometry geometry = state_geometry(facts.config, DType::f32);
  if (geometry.count(LayerKind::recurrent) > 0) {
    facts.recurrent_bytes = geometry.count(LayerKind::recurrent) * geometry.recurrent_bytes();
    facts.conv_bytes = geometry.count(LayerKind::recurrent) * geometry.conv_bytes();
  }
  if (geometry.count(LayerKind::attention) > 0) {
    facts.kv_bytes = geometry.count(LayerKind::attention) *
                     checked_mul(geometry.pages_for(facts.context), geometry.page_bytes(), "kv");
  }
  return facts;
}

std::string layer_pattern(const ModelConfig& config) {
  std::string text;
  for (LayerKind type : config.layer_types) text += type == LayerKind::recurrent ? 'g' : 'A';
  return text;
}

std::string to_text(const Facts& f) {
  const ModelConfig& c = f.config;
  std::string text = f.synthetic ? fmt::format("model             {}\n", f.model) : "";
  text += fmt::format("architecture      {}: {} layers, {} Gated DeltaNet (g) and {} full attention (A)\n",
                      c.model_type, c.num_hidden_layers, c.count(LayerKind::recurrent),
                      c.count(LayerKind::attention));
  text += fmt::format("layers            {}\n", layer_pattern(c));
  text += fmt::format("hidden            {}, MLP {}, vocabulary {}{}\n", c.hidden_size, c.intermediate_size,
                      c.vocab_size, c.tie_word_embeddings ? " (head tied to the embedding)" : "");
  text +=
      fmt::format("Gated DeltaNet    {} key heads x {}, {} value heads x {}, convolution over {} tokens\n",
                  c.linear_num_key_heads, c.linear_key_head_dim, c.linear_num_value_heads,
                  c.linear_value_head_dim, c.linear_conv_kernel_dim);
  text += fmt::format("attention         {} heads x {}, {} key/value heads, {} elements rotated, theta {}\n",
                      c.num_attention_heads, c.head_dim, c.num_key_value_heads, c.rotary_dim, c.rope_theta);
  text += fmt::format("parameters        {}\n", f.parameters);
  text += f.weight_bytes > 0 ? fmt::format("weights           {} bytes ({})\n", f.weight_bytes,
                                           human_bytes(static_cast<std::uint64_t>(f.weight_bytes)))
                             : "weights           none in this directory\n";
  text += "as computed with\n" + to_text(f.gears);
  for (const GgufModelFile::Use& use : f.uses.value_or(std::vector<GgufModelFile::Use>())) {
    text += fmt::format("  GGUF            {}\n", to_text(use));
  }
  for (const std::string& notice : f.notices) text += fmt::format("  GGUF            {}\n", notice);
  text += fmt::format(
      "state a sequence  recurrent {} bytes, convolution {} bytes, keys and values {} bytes for {} tokens "
      "(f32)\n",
      f.recurrent_bytes, f.conv_bytes, f.kv_bytes, f.context);
  return text;
}

nlohmann::json gguf_json(const Facts& f) {
  if (!f.uses) return nullptr;
  nlohmann::json tensors = nlohmann::json::array();
  for (const GgufModelFile::Use& use : *f.uses) {
    tensors.push_back(
        {{"type", use.type}, {"tensors", use.tensors}, {"bytes", use.bytes}, {"form", name(use.form)}});
  }
  return {{"tensors", tensors}, {"notices", f.notices}};
}

nlohmann::json to_json(const Facts& f) {
  const ModelConfig& c = f.config;
  return {{"arithmetic_version", kArithmeticVersion},
          {"model", f.model},
          {"model_type", c.model_type},
          {"layers", layer_pattern(c)},
          {"hidden_size", c.hidden_size},
          {"intermediate_size", c.intermediate_size},
          {"vocab_size", c.vocab_size},
          {"tie_word_embeddings", c.tie_word_embeddings},
          {"parameters", f.parameters},
          {"weight_bytes", f.weight_bytes},
          {"gears", to_json(f.gears)},
          {"gguf", gguf_json(f)},
          {"state",
           {{"recurrent_bytes", f.recurrent_bytes},
            {"conv_bytes", f.conv_bytes},
            {"kv_bytes", f.kv_bytes},
            {"context_tokens", f.context}}}};
}

/// Variants of each operator, best first: [chosen], usable, (not on this machine).
nlohmann::json kernels_json(const Context& context) {
  nlohmann::json json;
  for (std::size_t b = 0; b < context.size(); ++b) {
    for (const KernelInfo& kernel : context.backend(b).kernels()) {
      json[context.backend(b).info().name][std::string(name(kernel.op))].push_back(
          {{"variant", kernel.variant}, {"usable", kernel.usable}, {"chosen", kernel.chosen}});
    }
  }
  return json;
}

std::string kernels_text(const Context& context) {
  std::string text = "\nkernel variants, best first: [chosen], usable, (not on this machine)\n";
  for (std::size_t b = 0; b < context.size(); ++b) {
    const Backend& backend = context.backend(b);
    text += fmt::format("{} ({})\n", backend.info().name, backend.info().description);
    std::map<OpKind, std::string> lines;
    for (const KernelInfo& kernel : backend.kernels()) {
      const std::string_view open = kernel.chosen ? "[" : kernel.usable ? "" : "(";
      const std::string_view close = kernel.chosen ? "]" : kernel.usable ? "" : ")";
      lines[kernel.op] += fmt::format(" {}{}{}", open, kernel.variant, close);
    }
    for (const auto& [op, line] : lines) text += fmt::format("  {:<16}{}\n", name(op), line);
  }
  return text;
}

int run(const InspectOptions& options) {
  const Facts facts = gather(options);
  const Context context = options.model.make_context(options.kernels);
  if (options.json) {
    nlohmann::json json = to_json(facts);
    if (options.kernels) json["kernels"] = kernels_json(context);
    print(json_text(json, 2) + "\n");
    return kOk;
  }
  std::string text = to_text(facts);
  if (options.kernels) text += kernels_text(context);
  print_report(text);
  return kOk;
}

}  // namespace

void add_inspect(CLI::App& program, Action& action) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      program.add_subcommand("inspect", "What a model is, what it takes, and which kernels would run it");
  options->model.add_model(*command);
  command->add_flag("--kernels", options->kernels, "list the kernel variants of every backend");
  command->add_flag("--json", options->json, "print one JSON object");
  options->model.add_context(*command);
  options->model.add_hardware(*command);
  command->footer("Weights are not needed. Example: tandem inspect --kernels");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace tandem::tools
