#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/mapped_file.hpp"
#include "core/tensor.hpp"

namespace tandem {

/// What a file says about one of its tensors, readable or not.
struct TensorInfo {
  std::string dtype;               ///< the file's word: "BF16", "F32", "I64", "F8_E4M3", ...
  std::vector<std::int64_t> dims;  ///< outermost first, of any rank; all of their products fit in 63 bits
  std::int64_t begin = 0;          ///< bytes from the start of the file's data section
  std::int64_t bytes = 0;
};

/// One file in the safetensors format, mapped: u64 little-endian header length, a JSON object {name: {dtype,
/// shape, data_offsets}}, then the data, row-major and little-endian.
///
/// The whole header is checked when the file is opened, as strictly as by the format's own library: the
/// tensors must cover the data exactly, without holes and overlaps. Only a type or a rank that this library
/// cannot represent is refused later, when that tensor is asked for: it must not keep others from being read.
///
/// Immutable and safe to use from several threads.
class SafetensorsFile {
 public:
  /// Throws like MappedFile::open, and corrupt, naming file and tensor, for a contradiction in the header.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_->path(); }
  /// The free text under `__metadata__`; empty if there is none.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  bool contains(std::string_view name) const { return tensors_.contains(name); }
  /// All names, sorted.
  std::vector<std::string> names() const;

  /// Throws not_found for a name that is not in the file. The reference lives as long as this object.
  const TensorInfo& info(std::string_view name) const;

  /// Element type or shape of a tensor. Throws not_found, and unsupported for a type other than F32, BF16,
  /// F16, F64, I32 or for a rank above Shape::kMaxRank.
  DType dtype(std::string_view name) const;
  Shape shape(std::string_view name) const;

  /// A contiguous view of the tensor's elements in the mapping, which `owner` keeps alive beyond this object.
  /// If the file has put the data where their type cannot be read (the format does not promise alignment),
  /// each call makes an aligned copy, owned by `owner`. Throws like dtype and shape.
  HostTensor tensor(std::string_view name) const;

 private:
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, TensorInfo, std::less<>> tensors_;
  std::int64_t data_begin_ = 0;  ///< bytes from the start of the file
};

}  // namespace tandem
