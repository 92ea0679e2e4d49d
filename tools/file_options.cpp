#include "tools/file_options.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/io/new_file.hpp"
#include "tools/command.hpp"

namespace tandem::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInput = "INPUT";
constexpr const char* kOutput = "OUTPUT";
constexpr const char* kOutputDirectory = "OUTPUT-DIRECTORY";
constexpr const char* kInputThenOutput = "[INPUT] OUTPUT-DIRECTORY";

struct UsedFile {
  std::string option;
  fs::path path;
};

struct CommandFiles {
  std::vector<UsedFile> inputs, outputs;  ///< directories to be made are not among the outputs
  std::set<const CLI::Option*> seen;
  bool has_model = false, may_have_model = false;
};

using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> id_of(const struct stat& status) { return FileId(status.st_dev, status.st_ino); }

std::optional<FileId> id_of(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? id_of(status) : std::nullopt;
}

void gather(const CLI::Option& option, CommandFiles& files) {
  const std::string use = option.get_type_name();
  const bool is_model = option.get_name() == "MODEL" || option.get_name() == "--model";
  files.may_have_model = files.may_have_model || is_model || use == kInputThenOutput;
  if (option.count() == 0 || !files.seen.insert(&option).second) return;
  const std::vector<std::string> paths = option.results();
  if (option.get_name() == "--synthetic") files.has_model = true;
  if (use == kInput || use == kInputThenOutput) {
    const std::size_t count = paths.size() - (use == kInputThenOutput ? 1 : 0);
    for (std::size_t i = 0; i < count; ++i) files.inputs.push_back({option.get_name(), paths[i]});
    files.has_model = files.has_model || (count > 0 && use == kInputThenOutput) || (count > 0 && is_model);
  }
  if (use == kOutput && paths.back() != "-") files.outputs.push_back({option.get_name(), paths.back()});
}

void gather(const CLI::App& app, CommandFiles& files) {
  for (const CLI::Option* option : app.get_options()) gather(*option, files);
  const auto all = [](const CLI::App*) { return true; };
  for (const CLI::App* group : app.get_subcommands(all)) {
    if (group->get_name().empty()) gather(*group, files);
  }
  for (const CLI::App* command : app.get_subcommands()) {
    if (!command->get_name().empty()) gather(*command, files);
  }
}

[[noreturn]] void refuse(const UsedFile& output, const std::string& what) {
  fail(ErrorCode::invalid_argument, "{} '{}' is {}: give another file", output.option, output.path.string(),
       what);
}

void require_not_read(const UsedFile& output, const UsedFile& input) {
  const std::optional<FileId> written = id_of(output.path);
  if (!written) return;  // nothing is there yet
  if (written == id_of(input.path)) {
    refuse(output, fmt::format("the same file as {} '{}', which is read", input.option, input.path.string()));
  }
  std::error_code ignored;
  for (fs::directory_iterator file(input.path, ignored), end; !ignored && file != end;
       file.increment(ignored)) {
    if (written == id_of(file->path())) {
      refuse(output, fmt::format("'{}', a file of {} '{}', which is read", file->path().filename().string(),
                                 input.option, input.path.string()));
    }
  }
}

/// Folder and name, for files that need not be there yet.
bool same_place(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::weakly_canonical(fs::absolute(a, ignored), ignored) ==
         fs::weakly_canonical(fs::absolute(b, ignored), ignored);
}

bool is_character_device(const fs::path& path) {
  std::error_code ignored;
  return fs::is_character_file(path, ignored);
}

void require_not_written_twice(const UsedFile& one, const UsedFile& other) {
  if (is_character_device(one.path)) return;
  const std::optional<FileId> id = id_of(one.path);
  if (!same_place(one.path, other.path) && (!id || id != id_of(other.path))) return;
  fail(ErrorCode::invalid_argument, "{} and {} are the same file '{}': give two", one.option, other.option,
       other.path.string());
}

/// Standard output and standard error, where they go into a file.
void require_not_open(const UsedFile& file, const std::string& what, int fd, const char* name) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || id_of(status) != id_of(file.path)) return;
  refuse(file, fmt::format("{}, and {} goes into it", what, name));
}

}  // namespace

CLI::Option* uses_file(CLI::Option* option, FileUse use) {
  switch (use) {
    case FileUse::input:
      return option->type_name(kInput);
    case FileUse::output:
      return option->type_name(kOutput);
    case FileUse::output_directory:
      return option->type_name(kOutputDirectory);
    case FileUse::input_then_output:
      return option->type_name(kInputThenOutput);
  }
  return option;
}

void require_separate_files(const CLI::App& program) {
  CommandFiles files;
  gather(program, files);
  if (files.may_have_model && !files.has_model && !default_model().empty()) {
    files.inputs.push_back({"the default model", default_model()});
  }
  for (const UsedFile& input : files.inputs)
    require_not_open(input, "read", STDOUT_FILENO, "standard output");
  for (std::size_t i = 0; i < files.outputs.size(); ++i) {
    const UsedFile& output = files.outputs[i];
    for (std::size_t j = 0; j < i; ++j) require_not_written_twice(files.outputs[j], output);
    for (const UsedFile& input : files.inputs) require_not_read(output, input);
    if (!NewFile::is_stream(output.path)) {
      require_not_open(output, "written", STDOUT_FILENO, "standard output");
      require_not_open(output, "written", STDERR_FILENO, "standard error");
    }
  }
  for (const UsedFile& output : files.outputs) NewFile::require_possible(output.path);
}

}  // namespace tandem::tools
