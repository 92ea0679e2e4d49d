#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/io/gguf_blocks.hpp"
#include "core/io/mapped_file.hpp"
#include "core/tensor.hpp"

namespace tandem {

/// Types of metadata, with the file's numbers.
enum class GgufType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};
std::string_view name(GgufType type);

/// An array in the metadata as it lies in the mapping: a vocabulary has a quarter of a million strings, and
/// most readers want none of them. Its extent has been checked. Lives as long as the file.
struct GgufArray {
  GgufType element = GgufType::u8;  ///< not array
  std::int64_t count = 0;
  std::span<const std::byte> data;
};

/// A value of the metadata. f32 is kept apart from f64, since a short decimal number can be told from it.
/// Strings are views into the mapping, of any bytes.
using GgufValue = std::variant<std::uint64_t, std::int64_t, float, double, bool, std::string_view, GgufArray>;

/// What a file says about one of its tensors, readable or not.
struct GgufTensorInfo {
  std::uint32_t type_id = 0;       ///< GGML's number
  const GgmlType* type = nullptr;  ///< nullptr: not known
  std::vector<std::int64_t> dims;  ///< outermost first (the file has them the other way round), at most four
  std::int64_t offset = 0;         ///< bytes from the start of the file's data section
  std::int64_t bytes = 0;          ///< 0 for a type that is not known
};

/// One file in the GGUF format, version 2 or 3, little endian, mapped: metadata (keys and typed values), a
/// table of tensors, their data.
///
/// All of the header is checked when the file is opened, before anything is taken from it: every length and
/// count against the bytes that are left, duplicate keys and names, shapes against their types' blocks, every
/// tensor against the file's end and its neighbours. Nothing is allocated by a count alone. A tensor type
/// that is not known is refused only when that tensor is asked for.
///
/// Immutable and safe to use from several threads.
class GgufFile {
 public:
  /// Throws like MappedFile::open; corrupt, naming file and key or tensor, for a contradiction; unsupported
  /// for another version, big endian, or arrays of arrays.
  explicit GgufFile(const std::filesystem::path& path);

  /// Whether a regular file begins with the format's magic. False for anything else, and for what cannot be
  /// read.
  static bool is_gguf(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_->path(); }

  /// nullptr if there is no such key.
  const GgufValue* find(std::string_view key) const;
  /// The value of a key, nothing if it is absent. Throw invalid_argument, naming the key, what was expected
  /// and what was found, for a value of another type, or one that does not fit in 63 bits and a sign.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> string(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<std::string_view>> strings(std::string_view key) const;
  /// An f32 as the double of its shortest decimal form: 1e-6 as whoever wrote the file meant it.
  std::optional<double> number(std::string_view key) const;

  bool contains(std::string_view name) const { return tensors_.contains(name); }
  /// All tensors by name, sorted.
  const std::map<std::string, GgufTensorInfo, std::less<>>& tensors() const { return tensors_; }
  /// Bytes of all tensors whose type is known.
  std::int64_t total_bytes() const;
  /// Throws not_found. The reference lives as long as this object.
  const GgufTensorInfo& info(std::string_view name) const;
  /// The type of a tensor whose values can be read. Throws not_found, and unsupported naming the type.
  const GgmlType& readable_type(std::string_view name) const;
  /// A tensor's bytes in the mapping, aligned to at least 8, which `owner()` keeps alive beyond this object.
  /// Throws not_found, and unsupported for a type that is not known.
  std::span<const std::byte> data(std::string_view name) const;
  std::shared_ptr<const void> owner() const { return file_; }

 private:
  [[noreturn]] void fail_value(std::string_view key, std::string_view expected) const;

  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::map<std::string, GgufTensorInfo, std::less<>> tensors_;
  std::int64_t data_begin_ = 0;  ///< bytes from the start of the file
};

}  // namespace tandem
