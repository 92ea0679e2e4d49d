#include "tools/oracle/oracle_values.hpp"

#include "core/error.hpp"
#include "core/numerics.hpp"

namespace tandem::tools {
namespace {

template <class T>
std::vector<double> convert(const void* data, std::size_t count) {
  const T* first = static_cast<const T*>(data);
  std::vector<double> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>) {
      result[i] = static_cast<double>(num::widen(first[i]));
    } else {
      result[i] = static_cast<double>(first[i]);
    }
  }
  return result;
}

std::vector<double> convert(const void* data, std::size_t count, DType type) {
  switch (type) {
    case DType::f32:
      return convert<float>(data, count);
    case DType::bf16:
      return convert<bf16>(data, count);
    case DType::f16:
      return convert<f16>(data, count);
    case DType::f64:
      return convert<double>(data, count);
    case DType::i32:
      return convert<std::int32_t>(data, count);
    case DType::u8:
      return convert<std::uint8_t>(data, count);
    case DType::q4:
      break;
  }
  return {};
}

}  // namespace

std::vector<double> to_doubles(const ConstTensor& tensor) {
  return convert(tensor.data, static_cast<std::size_t>(tensor.shape.elements()), tensor.dtype);
}

std::vector<double> to_doubles(std::span<const std::byte> bytes, DType type) {
  return convert(bytes.data(), bytes.size() / size_of(type), type);
}

std::vector<std::int32_t> OracleValues::integers(const std::string& name) const {
  const HostTensor tensor = file_.tensor(name);
  if (tensor.view.dtype != DType::i32) {
    fail(ErrorCode::mismatch, "{}: '{}' is {}, expected i32", file_.path().string(), name,
         tandem::name(tensor.view.dtype));
  }
  const auto* first = tensor.view.row<std::int32_t>(0);
  return {first, first + tensor.view.shape.elements()};
}

}  // namespace tandem::tools
