#include "core/io/gguf.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <utility>

#include "core/error.hpp"
#include "core/io/gguf_reader.hpp"
#include "core/io/gguf_values.hpp"
#include "core/io/json.hpp"

namespace tandem {

namespace {

constexpr std::string_view kTypeNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};

bool is_whole(GgufType type) {
  return type != GgufType::f32 && type != GgufType::f64 && type != GgufType::boolean &&
         type != GgufType::string && type != GgufType::array;
}

/// A value as a message shows it.
struct Described {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::string_view value) const { return quote(value); }
  std::string operator()(const GgufArray& value) const {
    return fmt::format("an array of {} {}", value.count, name(value.element));
  }
  template <class T>
  std::string operator()(T value) const {
    return fmt::format("{}", value);
  }
};

/// The double whose decimal form is the shortest that names this float.
double by_shortest_decimal(float value) {
  if (!std::isfinite(value)) return value;
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  double result = 0;
  std::from_chars(text, end.ptr, result);
  return result;
}

}  // namespace

std::string_view name(GgufType type) { return kTypeNames[static_cast<std::size_t>(type)]; }

GgufFile::GgufFile(const std::filesystem::path& path) : file_(MappedFile::open(path)) {
  GgufHeader header = read_gguf_header(file_->bytes(), path.string());
  metadata_ = std::move(header.metadata);
  tensors_ = std::move(header.tensors);
  data_begin_ = header.data_begin;
}

bool GgufFile::is_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  // Opening a pipe would wait for a writer.
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  char magic[kGgufMagic.size()] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::string_view(magic, sizeof magic) == kGgufMagic;
}

void GgufFile::fail_value(std::string_view key, std::string_view expected) const {
  fail(ErrorCode::invalid_argument, "{}: {}: expected {}, found {}", path().string(), key, expected,
       std::visit(Described{}, *find(key)));
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<std::int64_t>(value)) return *number;
  const auto* number = std::get_if<std::uint64_t>(value);
  if (number == nullptr || !std::in_range<std::int64_t>(*number)) {
    fail_value(key, "a whole number of 63 bits");
  }
  return static_cast<std::int64_t>(*number);
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!std::holds_alternative<bool>(*value)) fail_value(key, "true or false");
  return std::get<bool>(*value);
}

std::optional<std::string_view> GgufFile::string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!std::holds_alternative<std::string_view>(*value)) fail_value(key, "a string");
  return std::get<std::string_view>(*value);
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* single = std::get_if<float>(value)) return by_shortest_decimal(*single);
  if (const auto* twice = std::get_if<double>(value)) return *twice;
  fail_value(key, "a floating-point number");
}

std::optional<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* array = std::get_if<GgufArray>(value);
  std::optional<std::vector<std::int64_t>> numbers;
  if (array != nullptr && is_whole(array->element)) numbers = gguf_integers(*array);
  if (!numbers) fail_value(key, "an array of whole numbers of 63 bits");
  return numbers;
}

std::optional<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr || array->element != GgufType::string) fail_value(key, "an array of strings");
  return gguf_strings(*array);
}

std::int64_t GgufFile::total_bytes() const {
  std::int64_t total = 0;  // at most the file's size, so it cannot overflow
  for (const auto& tensor : tensors_) total += tensor.second.bytes;
  return total;
}

const GgufTensorInfo& GgufFile::info(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail(ErrorCode::not_found, "{}: no tensor {}", path().string(), quote(name));
  return found->second;
}

const GgmlType& GgufFile::readable_type(std::string_view name) const {
  const GgufTensorInfo& tensor = info(name);
  if (tensor.type == nullptr || !is_readable(*tensor.type)) {
    fail(ErrorCode::unsupported,
         "{}: tensor {} has elements of type {}, expected {}: quantise the model in another way",
         path().string(), quote(name),
         tensor.type == nullptr ? fmt::format("number {}", tensor.type_id) : std::string(tensor.type->name),
         readable_ggml_types());
  }
  return *tensor.type;
}

std::span<const std::byte> GgufFile::data(std::string_view name) const {
  const GgufTensorInfo& tensor = info(name);
  if (tensor.type == nullptr) readable_type(name);
  return file_->bytes().subspan(static_cast<std::size_t>(data_begin_ + tensor.offset),
                                static_cast<std::size_t>(tensor.bytes));
}

}  // namespace tandem
