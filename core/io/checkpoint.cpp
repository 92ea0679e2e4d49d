#include "core/io/checkpoint.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/io/json.hpp"
#include "core/io/lfs_pointer.hpp"

namespace tandem {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
/// About 100 bytes a tensor: far more than any model has.
constexpr std::int64_t kMaxIndexBytes = 64 << 20;

/// An index comes with a download, so it must not be able to point anywhere else.
bool is_plain_file_name(std::string_view name) {
  using namespace std::string_view_literals;
  return !name.empty() && name != "." && name != ".." && name.find_first_of("/\\\0"sv) == name.npos;
}

bool is_present(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

void require_model_directory(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    fail(ErrorCode::not_found, "no such directory '{}'", path.string());
  }
  if (!fs::status_known(status)) {
    fail(ErrorCode::io, "cannot examine '{}': {}", path.string(), error.message());
  }
  if (!fs::is_directory(status)) {
    std::string beginning(64, '\0');
    std::ifstream(path, std::ios::binary).read(beginning.data(), std::ssize(beginning));
    refuse_lfs_pointer(beginning, path.string());
    fail(ErrorCode::invalid_argument,
         "'{}' is a file, expected a Hugging Face model directory or a GGUF file", path.string());
  }
}

Checkpoint Checkpoint::open(const fs::path& directory) {
  require_model_directory(directory);
  Checkpoint checkpoint(directory);
  if (is_present(directory / kSingleFile)) {
    checkpoint.open_single(directory / kSingleFile);
  } else if (is_present(directory / kIndexFile)) {
    checkpoint.open_indexed(directory / kIndexFile);
  } else {
    fail(ErrorCode::not_found, "no weights in '{}', looked for {} and {}", directory.string(), kSingleFile,
         kIndexFile);
  }
  return checkpoint;
}

void Checkpoint::open_single(const fs::path& path) {
  const auto file = std::make_shared<const SafetensorsFile>(path);
  files_.emplace(kSingleFile, file);
  for (const std::string& name : file->names()) tensors_.emplace(name, file);
}

void Checkpoint::open_indexed(const fs::path& index_path) {
  const std::string where = index_path.string();
  const Json index = read_json_file(index_path, kMaxIndexBytes);
  const auto weight_map = index.find("weight_map");
  if (weight_map == index.end() || !weight_map->is_object()) {
    fail(ErrorCode::corrupt, "{}: expected an object weight_map from tensors to files", where);
  }
  for (const auto& [name, value] : weight_map->items()) {
    if (!value.is_string() || !is_plain_file_name(value.get_ref<const std::string&>())) {
      fail(ErrorCode::corrupt,
           "{}: tensor {} is in {}, expected the plain name of a file in the same directory", where,
           quote(name), describe(value));
    }
    const auto& shard = value.get_ref<const std::string&>();
    File& file = files_[shard];
    if (file == nullptr) file = open_shard(shard, index_path);
    if (!file->contains(name)) {
      fail(ErrorCode::corrupt, "{}: tensor {} should be in {}, which does not have it", where, quote(name),
           quote(shard));
    }
    tensors_.emplace(name, file);
  }
}

Checkpoint::File Checkpoint::open_shard(const std::string& shard, const fs::path& index_path) const {
  const fs::path path = directory_ / shard;
  if (!is_present(path)) {
    fail(ErrorCode::not_found, "no such file '{}', a shard that {} names: is the download complete?",
         path.string(), index_path.filename().string());
  }
  return std::make_shared<const SafetensorsFile>(path);
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& tensor : tensors_) names.push_back(tensor.first);
  return names;
}

const SafetensorsFile& Checkpoint::file_of(std::string_view name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    fail(ErrorCode::not_found, "no tensor {} in the {} of '{}'", quote(name), tensors_.size(),
         directory_.string());
  }
  return *it->second;
}

const TensorInfo& Checkpoint::info(std::string_view name) const { return file_of(name).info(name); }

HostTensor Checkpoint::tensor(std::string_view name) const { return file_of(name).tensor(name); }

std::int64_t Checkpoint::total_bytes() const {
  std::int64_t total = 0;  // at most the sum of the file sizes, so it cannot overflow
  for (const auto& [name, file] : tensors_) total += file->info(name).bytes;
  return total;
}

std::vector<fs::path> Checkpoint::files() const {
  std::vector<fs::path> paths;
  for (const auto& file : files_) paths.push_back(file.second->path());
  return paths;
}

}  // namespace tandem
