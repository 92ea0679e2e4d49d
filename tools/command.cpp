#include "tools/command.hpp"

#include <unistd.h>

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/io/mapped_file.hpp"
#include "core/text/printable.hpp"
#include "graph/model/model_files.hpp"
#include "graph/model/synthetic.hpp"
#include "tools/byte_size.hpp"
#include "tools/file_options.hpp"
#include "tools/progress.hpp"

namespace tandem::tools {
namespace {

void print_notices(const GgufModelFile& file) {
  const std::string where = file.file().path().string();
  for (const GgufModelFile::Use& use : file.uses()) {
    const bool changed = use.form == GgufForm::dequantised || use.form == GgufForm::requantised ||
                         use.form == GgufForm::rounded;
    if (changed) tell(fmt::format("{}: {}", where, to_text(use)));
  }
  for (const std::string& notice : file.notices()) tell(fmt::format("{}: {}", where, notice));
}

void print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) tell(line);
}

/// What opening the model has made of its weights, for whoever sits before the terminal.
void print_conversions(const Model& model) {
  std::int64_t before = 0, after = 0;
  Q4Error error;
  for (const Conversion& conversion : model.conversions()) {
    before += conversion.bytes_before;
    after += conversion.bytes_after;
    error += conversion.error;
  }
  if (model.conversions().empty()) return;
  const bool quantised = error.squared_values > 0;
  const double lost = quantised ? std::sqrt(error.squared_error / error.squared_values) : 0;
  tell(fmt::format("{} tensors converted, {} to {}{}", model.conversions().size(),
                   human_bytes(static_cast<std::uint64_t>(before)),
                   human_bytes(static_cast<std::uint64_t>(after)),
                   quantised ? fmt::format("; relative rms error {:.4f}", lost) : ""));
}

}  // namespace

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return 2;
    case ErrorCode::not_found:
      return 3;
    case ErrorCode::unsupported:
      return 4;
    case ErrorCode::mismatch:
      return 5;
    case ErrorCode::corrupt:
      return 6;
    case ErrorCode::out_of_memory:
      return 7;
    case ErrorCode::not_resident:
      return 8;
    case ErrorCode::device_lost:
      return 9;
    case ErrorCode::io:
      return 10;
    case ErrorCode::interrupted:
      return 130;
  }
  return kInternal;
}

CLI::Validator not_empty() {
  const auto check = [](const std::string& text) {
    return text.empty() ? std::string("expected a path, got ''") : std::string();
  };
  return CLI::Validator(check, "");
}

std::vector<TokenId> parse_ids(std::string_view text, std::string_view where) {
  std::vector<TokenId> ids;
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const auto c = static_cast<unsigned char>(*at);
    if (std::isspace(c) != 0 || c == ',') {
      ++at;
      continue;
    }
    TokenId id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error == std::errc::result_out_of_range) {
      fail(ErrorCode::invalid_argument, "{}: the number at byte {} is too large for a token id", where,
           at - text.data());
    }
    if (error != std::errc()) {
      fail(ErrorCode::invalid_argument,
           "{}: expected token ids separated by commas or blanks, found something else at byte {}", where,
           at - text.data());
    }
    ids.push_back(id);
    at = next;
  }
  return ids;
}

std::vector<std::string> split_list(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void ModelOptions::add_source(CLI::App& command) {
  CLI::Option* directory =
      command
          .add_option(
              "MODEL", model,
              "Hugging Face directory or GGUF file of a Qwen3.5 text model (default: the shipped tiny model)")
          ->check(not_empty());
  uses_file(directory, FileUse::input);
  add_synthetic(command)->excludes(directory);
}

void ModelOptions::add_model(CLI::App& command) {
  add_source(command);
  add_gear(command);
  command
      .add_option("--requantize", requantize,
                  "q4: projections that a GGUF file has in other quantised types in q4 instead of in f32")
      ->check(CLI::IsMember({"q4"}));
  command.add_flag_callback(
      "--check-weights", [] { watch_mapped_files(MappedWatch::checksums); },
      "checksums of all files of weights before and after, beside their sizes and time stamps: an error when "
      "one was written to meanwhile");
}

CLI::Option* ModelOptions::add_synthetic(CLI::App& command) {
  return command.add_option("--synthetic", synthetic,
                            "instead: random weights at a published model's sizes, as in 27B or "
                            "0.8B:layers=2,vocab=512,dtype=f32,seed=7");
}

CLI::Option* ModelOptions::add_gear(CLI::App& command) {
  return command.add_option_function<std::string>(
      "--gear", [this](const std::string& text) { gears = Gears::parse(text); },
      "what projections are computed in: f32, bf16, q4, q4q8, or rules as in "
      "gdn=q4,mlp=q4q8,head=bf16,layer.3=f32 (default: as stored)");
}

void ModelOptions::add_hardware(CLI::App& command) {
  command.add_option("--threads", threads, "threads of the CPU backend (0: one for each processor)")
      ->check(number<int>("a whole number"))
      ->capture_default_str();
  command.add_option("--isa", isa, "force a CPU kernel variant: scalar, baseline, avx2, avx512")
      ->envname("TANDEM_CPU_ISA");
  command
      .add_option_function<std::string>(
          "--gpu-memory", [this](const std::string& text) { gpu_memory = *parse_byte_size(text); },
          "memory of a device to use at most, as in 8GiB or 500MiB (default: all that is free)")
      ->check(byte_size());
}

void ModelOptions::add_backends(CLI::App& command) {
  command
      .add_option("--place", place,
                  "where layers run: cpu, cuda, auto, reference, or rules as in cpu,cuda:8-15,cuda:head")
      ->capture_default_str();
  add_hardware(command);
}

void ModelOptions::add_gpu_layers(CLI::App& command) {
  command
      .add_option("--gpu-layers", gpu_layers,
                  "run the last N layers on the first device; more than there are: embedding and head too")
      ->check(number<std::int64_t>("a whole number >= 0", 0));
}

void ModelOptions::add_context(CLI::App& command) {
  command.add_option("--ctx", context, "context in tokens (0: 4096, or the model's limit if that is less)")
      ->check(number<std::int64_t>("a whole number >= 0", 0))
      ->capture_default_str();
}

void ModelOptions::add_safety(CLI::App& command) {
  command
      .add_option(
          "--mirror-every", mirror_every,
          "copy a sequence's state to the host every N tokens, to go on when a device is lost (0: never)")
      ->check(number<std::int64_t>("a whole number >= 0", 0))
      ->capture_default_str();
  command.add_flag("--verify-transfers", verify_transfers,
                   "read all that is moved a second time; a bit that changed on the way is an error");
  command.add_flag("--poison", poison, "fill state that is free with NaN, so that a read of it shows");
  add_faults(command);
}

void ModelOptions::add_faults(CLI::App& command) {
  // For trials alone, and never by accident: not in --help, and not to be had from the environment.
  const auto arm = [this](const std::string& text) { faults = std::make_shared<Faults>(parse_faults(text)); };
  command.add_option_function<std::string>("--faults", arm)->group("");
}

std::filesystem::path ModelOptions::path() const {
  if (!model.empty()) return model;
  std::filesystem::path found = default_model();
  if (found.empty()) fail(ErrorCode::not_found, "the default model is not installed; name a model directory");
  return found;
}

std::optional<GgufModelFile> ModelOptions::gguf() const {
  if (synthetic || !GgufFile::is_gguf(path())) return std::nullopt;
  return GgufModelFile(path(), {gears, !requantize.empty()});
}

std::string ModelOptions::name() const {
  return synthetic ? "synthetic " + to_text(parse_synthetic_spec(*synthetic)) : printable(path().native());
}

ModelConfig ModelOptions::config() const {
  if (synthetic) return synthetic_config(parse_synthetic_spec(*synthetic));
  if (const auto file = gguf()) return file->config();
  return has_weights(path()) ? ModelFiles(path()).config() : load_model_config(path());
}

std::optional<Tokenizer> ModelOptions::tokenizer(bool needed) const {
  if (synthetic && needed) {
    fail(ErrorCode::invalid_argument, "a synthetic model has no tokenizer: give token ids with --ids");
  }
  if (synthetic) return std::nullopt;
  try {
    return GgufFile::is_gguf(path()) ? Tokenizer::from_gguf(GgufFile(path()))
                                     : Tokenizer::load(path() / "tokenizer.json");
  } catch (const Error& error) {
    if (needed) throw;
    if (error.code() != ErrorCode::not_found) tell(fmt::format("printing ids, not text: {}", error.what()));
    return std::nullopt;
  }
}

Graph ModelOptions::graph() const {
  if (synthetic) {
    const SyntheticSpec spec = parse_synthetic_spec(*synthetic);
    return build_model_graph(synthetic_config(spec), synthetic_gears(spec, gears));
  }
  if (const auto file = gguf()) return file->graph();
  if (has_weights(path())) return ModelFiles(path()).graph(gears);
  const ModelConfig config = load_model_config(path());
  gears.require_layers(config.num_hidden_layers);
  return build_model_graph(config, gears_of(gears, published_gear));
}

WeightSizes ModelOptions::sizes(const Graph& graph) const {
  if (synthetic) return weight_sizes(*open());  // nothing large is made for it
  if (const auto file = gguf()) return file->sizes();
  return has_weights(path()) ? weight_sizes(graph, ModelFiles(path())) : weight_sizes(graph);
}

bool ModelOptions::may_use_gpu() const {
  return gpu_layers || place == "auto" || place.find("cuda") != std::string::npos;
}

Context ModelOptions::make_context() const { return make_context(may_use_gpu()); }

Context ModelOptions::make_context(bool gpu, bool stand_in) const {
  return tandem::make_context({.cpu = {.threads = threads, .variant = isa},
                               .stand_in = stand_in,
                               .gpu = gpu,
                               .gpu_memory = gpu_memory,
                               .faults = faults});
}

std::shared_ptr<const Model> ModelOptions::open() const {
  if (synthetic) return make_synthetic_model(parse_synthetic_spec(*synthetic), gears);
  const std::optional<GgufModelFile> file = gguf();
  if (file) print_notices(*file);
  const std::optional<ModelFiles> files = file ? std::nullopt : std::optional<ModelFiles>(path());
  if (files) print_lines(files->notices());
  std::shared_ptr<const Model> model;
  {
    Progress progress("loading weights");
    const auto show = [&](std::size_t done, std::size_t total) {
      if (interrupted()) fail(ErrorCode::interrupted, "interrupted after {} of {} weights", done, total);
      progress.show(done, total);
    };
    model = file ? file->open(show) : Model::open(*files, gears, show);
  }
  if (isatty(STDERR_FILENO) != 0) print_conversions(*model);
  return model;
}

std::filesystem::path default_model() {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  for (const std::filesystem::path& place :
       {program.parent_path().parent_path() / "share" / "tandem" / "models" / "tiny",
        std::filesystem::path(TANDEM_SOURCE_MODEL)}) {
    if (std::filesystem::exists(place / "config.json", ignored)) return place;
  }
  return {};
}

bool has_weights(const std::filesystem::path& directory) {
  return std::filesystem::exists(directory / "model.safetensors") ||
         std::filesystem::exists(directory / "model.safetensors.index.json");
}

}  // namespace tandem::tools
