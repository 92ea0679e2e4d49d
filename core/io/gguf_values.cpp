#include "core/io/gguf_values.hpp"

#include <utility>

namespace tandem {

std::int64_t size_of_gguf_scalar(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      return 0;
  }
  return 0;
}

GgufValue load_gguf_scalar(GgufType type, const std::byte* from) {
  switch (type) {
    case GgufType::u8:
      return std::uint64_t{load_gguf_number<std::uint8_t>(from)};
    case GgufType::i8:
      return std::int64_t{load_gguf_number<std::int8_t>(from)};
    case GgufType::u16:
      return std::uint64_t{load_gguf_number<std::uint16_t>(from)};
    case GgufType::i16:
      return std::int64_t{load_gguf_number<std::int16_t>(from)};
    case GgufType::u32:
      return std::uint64_t{load_gguf_number<std::uint32_t>(from)};
    case GgufType::i32:
      return std::int64_t{load_gguf_number<std::int32_t>(from)};
    case GgufType::f32:
      return load_gguf_number<float>(from);
    case GgufType::boolean:
      return load_gguf_number<std::uint8_t>(from) != 0;
    case GgufType::u64:
      return load_gguf_number<std::uint64_t>(from);
    case GgufType::i64:
      return load_gguf_number<std::int64_t>(from);
    default:
      return load_gguf_number<double>(from);
  }
}

std::vector<std::string_view> gguf_strings(const GgufArray& array) {
  std::vector<std::string_view> texts;
  texts.reserve(static_cast<std::size_t>(array.count));
  const std::byte* at = array.data.data();
  for (std::int64_t i = 0; i < array.count; ++i) {
    const auto length = static_cast<std::size_t>(load_gguf_number<std::uint64_t>(at));
    texts.emplace_back(reinterpret_cast<const char*>(at + sizeof(std::uint64_t)), length);
    at += sizeof(std::uint64_t) + length;
  }
  return texts;
}

std::optional<std::vector<std::int64_t>> gguf_integers(const GgufArray& array) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(array.count));
  const std::int64_t size = size_of_gguf_scalar(array.element);
  for (std::int64_t i = 0; i < array.count; ++i) {
    const GgufValue value = load_gguf_scalar(array.element, array.data.data() + i * size);
    const auto* whole = std::get_if<std::uint64_t>(&value);
    if (whole != nullptr && !std::in_range<std::int64_t>(*whole)) return std::nullopt;
    numbers.push_back(whole != nullptr ? static_cast<std::int64_t>(*whole) : std::get<std::int64_t>(value));
  }
  return numbers;
}

}  // namespace tandem
