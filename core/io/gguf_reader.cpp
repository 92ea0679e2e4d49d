#include "core/io/gguf_reader.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/error.hpp"
#include "core/io/gguf_values.hpp"
#include "core/io/json.hpp"

namespace tandem {

namespace {

constexpr std::uint32_t kFirstVersion = 2, kLastVersion = 3;
constexpr std::int64_t kDefaultAlignment = 32;
/// Of a page: more would only make files larger.
constexpr std::uint64_t kMaxAlignment = 1 << 16;
constexpr std::uint32_t kMaxDims = 4;
/// What the format allows for a key; tensor names have 64 at most.
constexpr std::uint64_t kMaxNameBytes = 65535;
constexpr std::string_view kAlignmentKey = "general.alignment";

/// Reads from the start of a file to the end of its table of tensors. `what_` says what is being read.
class GgufHeaderReader {
 public:
  GgufHeaderReader(std::span<const std::byte> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  GgufHeader read() {
    read_magic();
    const std::uint64_t tensors = read_count("tensors", 24), keys = read_count("keys", 13);
    for (std::uint64_t i = 0; i < keys; ++i) read_key();
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor();
    what_ = "header";
    find_data(tensors > 0);
    check_places();
    return std::move(header_);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::corrupt, "{}: {}: {}", where_, what_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::uint64_t left() const { return bytes_.size() - at_; }

  const std::byte* take(std::uint64_t count) {
    if (count > left()) {
      refuse("{} bytes expected at byte {}, found {}: is the file truncated?", count, at_, left());
    }
    const std::byte* taken = bytes_.data() + at_;
    at_ += count;
    return taken;
  }

  template <class T>
  T read_number() {
    return load_gguf_number<T>(take(sizeof(T)));
  }

  std::string_view read_string() {
    const auto length = read_number<std::uint64_t>();
    return {reinterpret_cast<const char*>(take(length)), static_cast<std::size_t>(length)};
  }

  std::string read_name(std::string_view kind) {
    const std::string_view text = read_string();
    if (text.empty() || text.size() > kMaxNameBytes) {
      refuse("a {} of {} bytes, expected 1 to {}", kind, text.size(), kMaxNameBytes);
    }
    return std::string(text);
  }

  void read_magic() {
    const auto* magic = reinterpret_cast<const char*>(take(kGgufMagic.size()));
    if (std::string_view(magic, kGgufMagic.size()) != kGgufMagic) {
      refuse("no GGUF file, which begins with the letters GGUF");
    }
    const auto version = read_number<std::uint32_t>();
    if (version >= kFirstVersion && version <= kLastVersion) return;
    const bool swapped = version != 0 && (version & 0xffff) == 0;
    fail(ErrorCode::unsupported, "{}: GGUF version {}{}, expected {} or {}: convert the file again", where_,
         swapped ? version >> 24 : version, swapped ? " of a big-endian machine" : "", kFirstVersion,
         kLastVersion);
  }

  /// A count of things that take at least `least` bytes each.
  std::uint64_t read_count(std::string_view things, std::uint64_t least) {
    const auto count = read_number<std::uint64_t>();
    if (count > left() / least) {
      refuse("{} {} in a file of {} bytes: is the file truncated?", count, things, bytes_.size());
    }
    return count;
  }

  GgufType read_type() {
    const auto type = read_number<std::uint32_t>();
    if (type > static_cast<std::uint32_t>(GgufType::f64)) {
      refuse("a value of type {}, expected 0 to 12", type);
    }
    return static_cast<GgufType>(type);
  }

  void read_key() {
    what_ = fmt::format("key {}", header_.metadata.size());
    std::string key = read_name("key");
    what_ = fmt::format("key {}", quote(key));
    if (header_.metadata.contains(key)) refuse("it is there twice");
    const GgufValue value = read_value(read_type());
    header_.metadata.emplace(std::move(key), value);
  }

  GgufValue read_value(GgufType type) {
    if (type == GgufType::string) return read_string();
    if (type == GgufType::array) return read_array();
    const std::byte* from = take(static_cast<std::uint64_t>(size_of_gguf_scalar(type)));
    if (type == GgufType::boolean) check_booleans({from, 1});
    return load_gguf_scalar(type, from);
  }

  GgufArray read_array() {
    GgufArray array;
    array.element = read_type();
    if (array.element == GgufType::array) {
      fail(ErrorCode::unsupported, "{}: {}: an array of arrays is not supported", where_, what_);
    }
    const bool strings = array.element == GgufType::string;
    const auto size = static_cast<std::uint64_t>(strings ? 8 : size_of_gguf_scalar(array.element));
    const std::uint64_t count = read_count("elements", size);
    const std::uint64_t begin = at_;
    if (!strings) take(count * size);
    for (std::uint64_t i = 0; strings && i < count; ++i) read_string();
    array.count = static_cast<std::int64_t>(count);
    array.data = bytes_.subspan(begin, at_ - begin);
    if (array.element == GgufType::boolean) check_booleans(array.data);
    return array;
  }

  void check_booleans(std::span<const std::byte> values) const {
    for (const std::byte value : values) {
      if (std::to_integer<int>(value) > 1)
        refuse("a boolean of {}, expected 0 or 1", std::to_integer<int>(value));
    }
  }

  void read_tensor() {
    what_ = fmt::format("tensor {}", header_.tensors.size());
    std::string tensor = read_name("name");
    what_ = fmt::format("tensor {}", quote(tensor));
    if (header_.tensors.contains(tensor)) refuse("it is there twice");
    GgufTensorInfo info;
    info.dims = read_dims();
    info.type_id = read_number<std::uint32_t>();
    info.type = find_ggml_type(info.type_id);
    const auto offset = read_number<std::uint64_t>();
    if (!std::in_range<std::int64_t>(offset)) refuse("its data begin at byte {}, outside any file", offset);
    info.offset = static_cast<std::int64_t>(offset);
    if (info.type != nullptr) info.bytes = bytes_of(*info.type, info.dims);
    header_.tensors.emplace(std::move(tensor), std::move(info));
  }

  /// Outermost first. Their product fits in 63 bits.
  std::vector<std::int64_t> read_dims() {
    const auto rank = read_number<std::uint32_t>();
    if (rank < 1 || rank > kMaxDims) refuse("{} dimensions, expected 1 to {}", rank, kMaxDims);
    std::vector<std::int64_t> dims(rank);
    std::int64_t product = 1;
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
      const auto size = read_number<std::uint64_t>();
      if (size == 0 || !std::in_range<std::int64_t>(size)) {
        refuse("a dimension of {}, expected a number above 0 of 63 bits", size);
      }
      *dim = static_cast<std::int64_t>(size);
      if (__builtin_mul_overflow(product, *dim, &product)) refuse("its shape overflows 63 bits");
    }
    return dims;
  }

  std::int64_t bytes_of(const GgmlType& type, const std::vector<std::int64_t>& dims) const {
    if (dims.back() % type.block_elements != 0) {
      refuse("rows of {} elements, expected a multiple of {} for {}", dims.back(), type.block_elements,
             type.name);
    }
    std::int64_t bytes = type.block_bytes;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const std::int64_t factor = i + 1 < dims.size() ? dims[i] : dims[i] / type.block_elements;
      if (__builtin_mul_overflow(bytes, factor, &bytes)) refuse("its size overflows 63 bits");
    }
    return bytes;
  }

  std::int64_t alignment() const {
    const auto found = header_.metadata.find(kAlignmentKey);
    if (found == header_.metadata.end()) return kDefaultAlignment;
    const auto* number = std::get_if<std::uint64_t>(&found->second);
    if (number == nullptr || *number < 8 || *number > kMaxAlignment || !std::has_single_bit(*number)) {
      refuse("{} is {}, expected a power of two of 8 to {}", kAlignmentKey,
             number == nullptr ? "no unsigned number" : std::to_string(*number), kMaxAlignment);
    }
    return static_cast<std::int64_t>(*number);
  }

  void find_data(bool needed) {
    const std::int64_t align = alignment();
    const auto end = static_cast<std::int64_t>(at_);
    header_.data_begin = (end + align - 1) / align * align;
    data_bytes_ = static_cast<std::int64_t>(bytes_.size()) - header_.data_begin;
    if (needed && data_bytes_ < 0) refuse("it ends at byte {} without data: is the file truncated?", end);
    for (const auto& [tensor, info] : header_.tensors) {
      what_ = fmt::format("tensor {}", quote(tensor));
      if (info.offset % align != 0) {
        refuse("its data begin at byte {}, expected a multiple of {}", info.offset, align);
      }
      if (info.offset > data_bytes_ || info.bytes > data_bytes_ - info.offset) {
        refuse("{} bytes at {} leave the {} bytes of data: is the file truncated?", info.bytes, info.offset,
               data_bytes_);
      }
    }
  }

  void check_places() {
    using Entry = decltype(header_.tensors)::value_type;
    std::vector<const Entry*> order;
    for (const Entry& tensor : header_.tensors) order.push_back(&tensor);
    std::ranges::sort(order, {}, [](const Entry* t) { return std::pair(t->second.offset, t->second.bytes); });
    std::int64_t covered = 0;
    for (const Entry* tensor : order) {
      what_ = fmt::format("tensor {}", quote(tensor->first));
      if (tensor->second.offset < covered) {
        refuse("its data at byte {} overlap the tensor before, which ends at {}", tensor->second.offset,
               covered);
      }
      covered = tensor->second.offset + tensor->second.bytes;
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& where_;
  std::string what_ = "header";
  std::uint64_t at_ = 0;
  std::int64_t data_bytes_ = 0;
  GgufHeader header_;
};

}  // namespace

GgufHeader read_gguf_header(std::span<const std::byte> bytes, const std::string& where) {
  return GgufHeaderReader(bytes, where).read();
}

}  // namespace tandem
