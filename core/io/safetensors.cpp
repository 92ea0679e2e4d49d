#include "core/io/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "core/error.hpp"
#include "core/io/json.hpp"
#include "core/io/lfs_pointer.hpp"

namespace tandem {

namespace {

using Tensors = std::map<std::string, TensorInfo, std::less<>>;

/// What the format's reference implementation allows.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::int64_t kLengthBytes = 8;

struct FormatType {
  std::string_view word;
  int bits;
  std::optional<DType> dtype;  ///< nothing: known only well enough to check sizes
};

constexpr FormatType kFormatTypes[] = {
    {"F32", 32, DType::f32},      {"BF16", 16, DType::bf16},    {"F16", 16, DType::f16},
    {"F64", 64, DType::f64},      {"I32", 32, DType::i32},      {"BOOL", 8, std::nullopt},
    {"U8", 8, DType::u8},         {"I8", 8, std::nullopt},      {"F8_E5M2", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt}, {"F8_E8M0", 8, std::nullopt}, {"U16", 16, std::nullopt},
    {"I16", 16, std::nullopt},    {"U32", 32, std::nullopt},    {"U64", 64, std::nullopt},
    {"I64", 64, std::nullopt},    {"C64", 64, std::nullopt},
};

const FormatType* find_type(std::string_view word) {
  const auto* type = std::ranges::find(kFormatTypes, word, &FormatType::word);
  return type == std::end(kFormatTypes) ? nullptr : type;
}

/// Bytes of that many elements of `bits` (a multiple of 8) each; nothing if they do not fit in 63 bits. A
/// size of zero counts as one until the end, because a product of only some of the sizes must be computable,
/// too.
std::optional<std::int64_t> data_bytes(std::span<const std::int64_t> dims, int bits) {
  std::int64_t product = bits;
  for (const std::int64_t dim : dims) {
    if (__builtin_mul_overflow(product, std::max<std::int64_t>(dim, 1), &product)) return std::nullopt;
  }
  return std::ranges::find(dims, 0) != dims.end() ? 0 : product / 8;
}

/// Reads the header of one file. All of its errors are `corrupt` and name the file.
class HeaderReader {
 public:
  explicit HeaderReader(const MappedFile& file) : path_(file.path().string()), bytes_(file.bytes()) {
    read_length();
    data_bytes_ = static_cast<std::int64_t>(bytes_.size()) - data_begin();
  }

  std::int64_t data_begin() const { return kLengthBytes + header_bytes_; }

  void read(Tensors& tensors, std::map<std::string, std::string>& metadata) const {
    const auto* text = reinterpret_cast<const char*>(bytes_.data()) + kLengthBytes;
    const Json header = parse_json({text, static_cast<std::size_t>(header_bytes_)}, path_ + ": header");
    if (!header.is_object()) refuse("the header is {}, expected a JSON object", describe(header));
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        metadata = read_metadata(value);
      } else {
        tensors.emplace(name, read_tensor(name, value));
      }
    }
    check_coverage(tensors);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::corrupt, "{}: {}", path_, fmt::format(format, std::forward<Args>(args)...));
  }

  template <class... Args>
  [[noreturn]] void refuse_tensor(std::string_view name, fmt::format_string<Args...> format,
                                  Args&&... args) const {
    refuse("tensor {}: {}", quote(name), fmt::format(format, std::forward<Args>(args)...));
  }

  void read_length() {
    if (bytes_.size() < kLengthBytes) {
      refuse("{} bytes are no safetensors file, expected at least {}", bytes_.size(), kLengthBytes);
    }
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < kLengthBytes; ++i)
      length |= std::to_integer<std::uint64_t>(bytes_[i]) << (8 * i);
    if (length > kMaxHeaderBytes) {
      refuse("a header of {} bytes, expected at most {}: is this a safetensors file?", length,
             kMaxHeaderBytes);
    }
    if (length > bytes_.size() - kLengthBytes) {
      refuse("a header of {} bytes in a file of {}: is the file truncated?", length, bytes_.size());
    }
    header_bytes_ = static_cast<std::int64_t>(length);
  }

  std::map<std::string, std::string> read_metadata(const Json& value) const {
    if (!value.is_object()) refuse("__metadata__ is {}, expected an object of strings", describe(value));
    std::map<std::string, std::string> metadata;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse("__metadata__: {} is {}, expected a string", quote(key), describe(text));
      metadata.emplace(key, text.get_ref<const std::string&>());
    }
    return metadata;
  }

  TensorInfo read_tensor(const std::string& name, const Json& value) const {
    if (!value.is_object()) refuse_tensor(name, "the entry is {}, expected an object", describe(value));
    TensorInfo info;
    const Json& dtype = member(name, value, "dtype");
    if (!dtype.is_string()) refuse_tensor(name, "dtype is {}, expected a string", describe(dtype));
    info.dtype = dtype.get_ref<const std::string&>();
    info.dims = sizes(name, value, "shape");
    const auto offsets = sizes(name, value, "data_offsets");
    if (offsets.size() != 2) refuse_tensor(name, "data_offsets has {} numbers, expected 2", offsets.size());
    if (offsets[0] > offsets[1]) {
      refuse_tensor(name, "data_offsets [{}, {}] end before they begin", offsets[0], offsets[1]);
    }
    if (offsets[1] > data_bytes_) {
      refuse_tensor(name, "data_offsets [{}, {}] leave the {} bytes of data: is the file truncated?",
                    offsets[0], offsets[1], data_bytes_);
    }
    info.begin = offsets[0];
    info.bytes = offsets[1] - offsets[0];
    check_size(name, info);
    return info;
  }

  const Json& member(const std::string& name, const Json& entry, const char* key) const {
    const auto it = entry.find(key);
    if (it == entry.end()) refuse_tensor(name, "{} is missing", key);
    return *it;
  }

  std::vector<std::int64_t> sizes(const std::string& name, const Json& entry, const char* key) const {
    const Json& list = member(name, entry, key);
    if (!list.is_array()) refuse_tensor(name, "{} is {}, expected an array", key, describe(list));
    std::vector<std::int64_t> numbers;
    for (const Json& item : list) {
      // The parser makes every whole number that is not negative an unsigned one.
      if (!item.is_number_unsigned() || !std::in_range<std::int64_t>(item.get<std::uint64_t>())) {
        refuse_tensor(name, "{} contains {}, expected whole numbers of 63 bits", key, describe(item));
      }
      numbers.push_back(item.get<std::int64_t>());
    }
    return numbers;
  }

  /// A type that is not known has no size to compare with, but its shape must still be computable.
  void check_size(const std::string& name, const TensorInfo& info) const {
    const FormatType* type = find_type(info.dtype);
    const auto expected = data_bytes(info.dims, type == nullptr ? 8 : type->bits);
    if (!expected) refuse_tensor(name, "the shape [{}] overflows 63 bits", fmt::join(info.dims, ", "));
    if (type != nullptr && info.bytes != *expected) {
      refuse_tensor(name, "{} bytes of data, expected {} for {} [{}]", info.bytes, *expected, info.dtype,
                    fmt::join(info.dims, ", "));
    }
  }

  void check_coverage(const Tensors& tensors) const {
    std::vector<const Tensors::value_type*> order;
    for (const auto& tensor : tensors) order.push_back(&tensor);
    std::ranges::sort(order, {}, [](const auto* t) { return std::pair(t->second.begin, t->second.bytes); });
    std::int64_t covered = 0;
    for (const auto* tensor : order) {
      const auto& [name, info] = *tensor;
      if (info.begin < covered) {
        refuse_tensor(name, "its data at byte {} overlap the tensor before, which ends at {}", info.begin,
                      covered);
      }
      if (info.begin > covered) {
        refuse_tensor(name, "its data begin at byte {}, but the tensor before ends at {}: a hole", info.begin,
                      covered);
      }
      covered += info.bytes;
    }
    if (covered != data_bytes_) {
      refuse("the tensors cover {} of {} bytes of data, expected all of them", covered, data_bytes_);
    }
  }

  std::string path_;
  std::span<const std::byte> bytes_;
  std::int64_t header_bytes_ = 0;
  std::int64_t data_bytes_ = 0;
};

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(MappedFile::open(path)) {
  constexpr std::size_t kBeginning = 64;
  const std::span<const std::byte> bytes = file_->bytes();
  refuse_lfs_pointer({reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kBeginning)},
                     path.string());
  const HeaderReader reader(*file_);
  data_begin_ = reader.data_begin();
  reader.read(tensors_, metadata_);
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& tensor : tensors_) names.push_back(tensor.first);
  return names;
}

const TensorInfo& SafetensorsFile::info(std::string_view name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) fail(ErrorCode::not_found, "{}: no tensor {}", path().string(), quote(name));
  return it->second;
}

DType SafetensorsFile::dtype(std::string_view name) const {
  const TensorInfo& tensor = info(name);
  const FormatType* type = find_type(tensor.dtype);
  if (type == nullptr || !type->dtype) {
    fail(ErrorCode::unsupported,
         "{}: tensor {} has elements of type {}, expected F32, BF16, F16, F64 or I32: convert the file",
         path().string(), quote(name), quote(tensor.dtype));
  }
  return *type->dtype;
}

Shape SafetensorsFile::shape(std::string_view name) const {
  const TensorInfo& tensor = info(name);
  if (tensor.dims.size() > Shape::kMaxRank) {
    fail(ErrorCode::unsupported, "{}: tensor {} has {} dimensions, expected at most {}", path().string(),
         quote(name), tensor.dims.size(), Shape::kMaxRank);
  }
  return Shape::from(tensor.dims);
}

HostTensor SafetensorsFile::tensor(std::string_view name) const {
  const TensorInfo& tensor = info(name);
  const DType type = dtype(name);
  const std::byte* data = file_->bytes().data() + data_begin_ + tensor.begin;
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(type) == 0) {
    return {ConstTensor(data, type, shape(name)), file_};
  }
  const auto size = static_cast<std::size_t>(tensor.bytes);
  // new[] of bytes is aligned for every ordinary type.
  const std::shared_ptr<std::byte[]> copy(new std::byte[size]);
  std::memcpy(copy.get(), data, size);
  return {ConstTensor(copy.get(), type, shape(name)), copy};
}

}  // namespace tandem
