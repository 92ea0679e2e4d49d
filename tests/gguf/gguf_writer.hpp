#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tandem::test {

/// Numbers of GGML's types.
inline constexpr std::uint32_t kGgmlF32 = 0, kGgmlF16 = 1, kGgmlQ4_0 = 2, kGgmlQ8_0 = 8, kGgmlBf16 = 30;

/// A number's little-endian bytes.
template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline std::string raw_string(std::string_view text) {
  return raw(std::uint64_t{text.size()}) + std::string(text);
}

/// Collects keys and tensors and makes the bytes of a GGUF file of them, written from the format's
/// description. What is public can be damaged.
class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint64_t key_count = 0, tensor_count = 0;
  std::string keys, tensors, data;

  /// A key with the number of its value's type and the value's bytes.
  GgufWriter& key(std::string_view name, std::uint32_t type, const std::string& value) {
    ++key_count;
    keys += raw_string(name) + raw(type) + value;
    return *this;
  }
  GgufWriter& u32(std::string_view name, std::uint32_t value) { return key(name, 4, raw(value)); }
  GgufWriter& f32(std::string_view name, float value) { return key(name, 6, raw(value)); }
  GgufWriter& boolean(std::string_view name, bool value) {
    return key(name, 7, raw(static_cast<std::uint8_t>(value)));
  }
  GgufWriter& string(std::string_view name, std::string_view value) {
    return key(name, 8, raw_string(value));
  }
  GgufWriter& strings(std::string_view name, const std::vector<std::string>& values) {
    std::string bytes = raw(std::uint32_t{8}) + raw(std::uint64_t{values.size()});
    for (const std::string& value : values) bytes += raw_string(value);
    return key(name, 9, bytes);
  }
  GgufWriter& i32s(std::string_view name, const std::vector<std::int32_t>& values) {
    std::string bytes = raw(std::uint32_t{5}) + raw(std::uint64_t{values.size()});
    for (const std::int32_t value : values) bytes += raw(value);
    return key(name, 9, bytes);
  }

  /// `dims` outermost first; the file has them the other way round.
  GgufWriter& tensor(std::string_view name, std::uint32_t type, const std::vector<std::int64_t>& dims,
                     std::string_view bytes) {
    tensor_entry(name, type, dims, data.size());
    data += bytes;
    data.resize((data.size() + 31) / 32 * 32, '\0');
    return *this;
  }
  GgufWriter& tensor_entry(std::string_view name, std::uint32_t type, const std::vector<std::int64_t>& dims,
                           std::uint64_t offset) {
    ++tensor_count;
    tensors += raw_string(name) + raw(static_cast<std::uint32_t>(dims.size()));
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) tensors += raw(*dim);
    tensors += raw(type) + raw(offset);
    return *this;
  }

  std::string header() const {
    return "GGUF" + raw(version) + raw(tensor_count) + raw(key_count) + keys + tensors;
  }
  std::string bytes() const {
    std::string file = header();
    file.resize((file.size() + 31) / 32 * 32, '\0');
    return file + data;
  }
};

}  // namespace tandem::test
