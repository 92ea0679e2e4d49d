#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace tandem {

// Numbers are written as they lie in memory, which makes the file little-endian.
static_assert(std::endian::native == std::endian::little);

/// A header that grows field by field.
class HeaderWriter {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    raw(std::as_bytes(std::span(&value, 1)));
  }
  /// Length in 4 bytes, then the text.
  void text(std::string_view text) {
    number(static_cast<std::uint32_t>(text.size()));
    raw(std::as_bytes(std::span(text)));
  }
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void zeros(std::size_t count) { bytes_.resize(bytes_.size() + count); }

  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// A header that is read field by field; a field that does not fit in what is left is Error(corrupt).
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  template <class T>
  T number(std::string_view field) {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, raw(sizeof(T), field).data(), sizeof(T));
    return value;
  }
  std::string text(std::string_view field) {
    const std::span<const std::byte> bytes = raw(number<std::uint32_t>(field), field);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::span<const std::byte> raw(std::uint64_t count, std::string_view field) {
    if (count > bytes_.size()) {
      fail(ErrorCode::corrupt, "{}: header: {} takes {} bytes, {} are left", where_, field, count,
           bytes_.size());
    }
    const std::span<const std::byte> taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view where_;
};

}  // namespace tandem
