#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/io/safetensors.hpp"

namespace tandem {

/// Throws not_found if nothing is at `path`, invalid_argument if it is no directory (as refuse_lfs_pointer if
/// it is such a file).
void require_model_directory(const std::filesystem::path& path);

/// The weights in a Hugging Face model directory: one safetensors file, or several with an index. All files
/// are mapped and their headers checked when the checkpoint is opened; data are read when they are touched.
///
/// Cheap to move; immutable and safe to use from several threads.
class Checkpoint {
 public:
  /// Opens `model.safetensors`, or else `model.safetensors.index.json` with the shards that it names, which
  /// must lie in the same directory. Throws like require_model_directory and SafetensorsFile; not_found,
  /// naming what was looked for, if there is neither file or a shard is missing; corrupt for a bad index or a
  /// shard without a tensor that the index puts there.
  static Checkpoint open(const std::filesystem::path& directory);

  bool contains(std::string_view name) const { return tensors_.contains(name); }
  /// All names, sorted. With an index these are the names in the index, whatever else the shards hold.
  std::vector<std::string> names() const;

  /// As in SafetensorsFile. A HostTensor keeps its file mapped beyond the checkpoint; a TensorInfo lives as
  /// long as the checkpoint. Throw not_found for a name that is not there, naming the directory.
  const TensorInfo& info(std::string_view name) const;
  HostTensor tensor(std::string_view name) const;
  /// The file that has the tensor.
  const SafetensorsFile& file_of(std::string_view name) const;

  /// Bytes of all tensors, as they lie in the files.
  std::int64_t total_bytes() const;
  /// The safetensors files, sorted.
  std::vector<std::filesystem::path> files() const;

 private:
  using File = std::shared_ptr<const SafetensorsFile>;

  explicit Checkpoint(std::filesystem::path directory) : directory_(std::move(directory)) {}
  void open_single(const std::filesystem::path& path);
  void open_indexed(const std::filesystem::path& index_path);
  File open_shard(const std::string& shard, const std::filesystem::path& index_path) const;

  std::filesystem::path directory_;
  std::map<std::string, File> files_;                 ///< by file name
  std::map<std::string, File, std::less<>> tensors_;  ///< by tensor name
};

}  // namespace tandem
