#include "graph/model/convert.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "core/host_memory.hpp"
#include "graph/model/widen.hpp"

namespace tandem {
namespace {

bool is_stored_type(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16 || type == DType::q4;
}

bf16 nearest_bf16(float x) {
  constexpr std::uint32_t kQuiet = 0x40;
  if (x == x) return round_to_bf16(x);
  return bf16{static_cast<std::uint16_t>((num::bits_of(x) >> 16) | kQuiet)};
}

}  // namespace

void require_convertible(const Weight& weight, const ConstTensor& stored) {
  if (stored.shape != weight.shape) {
    fail(ErrorCode::mismatch, "tensor '{}' is {}, the configuration asks for {}", weight.name,
         to_string(stored.shape), to_string(weight.shape));
  }
  if (!is_stored_type(stored.dtype)) {
    fail(ErrorCode::mismatch, "tensor '{}' is {}, expected f32, bf16 or f16", weight.name,
         name(stored.dtype));
  }
}

HostTensor round_to_bf16(const ConstTensor& tensor) {
  const HostTensor wide = tensor.dtype == DType::f32 ? HostTensor{tensor, nullptr} : widen_to_f32(tensor);
  const auto* from = wide.view.row<float>(0);
  const auto values = std::make_shared<std::vector<bf16>>(static_cast<std::size_t>(tensor.shape.elements()));
  std::transform(from, from + values->size(), values->begin(), nearest_bf16);
  return {ConstTensor(values->data(), DType::bf16, tensor.shape), values};
}

void WeightConverter::quantize_rows(const ConstTensor& matrix, void* to) {
  constexpr std::int64_t kPartElements = 4 << 20;
  if (threads_ == nullptr) {
    own_threads_ = std::make_unique<Threads>(0);
    threads_ = own_threads_.get();
  }
  const std::int64_t rows = std::max<std::int64_t>(1, kPartElements / matrix.row_elements());
  std::vector<Q4Error> errors(static_cast<std::size_t>(std::min(rows, matrix.rows())));
  for (std::int64_t first = 0; first < matrix.rows(); first += rows) {
    const std::int64_t count = std::min(rows, matrix.rows() - first);
    threads_->parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        errors[static_cast<std::size_t>(i)] = quantize_q4_rows(matrix, first + i, first + i + 1, to);
      }
    });
    // In order of rows, so that the sum does not depend on who computed which.
    for (std::int64_t i = 0; i < count; ++i) error_ += errors[static_cast<std::size_t>(i)];
    if (watch_) watch_();
  }
}

HostTensor WeightConverter::quantize(const Weight& weight, const ConstTensor& matrix) {
  const std::int64_t bytes = storage_bytes(DType::q4, matrix.shape.elements());
  const auto memory = std::make_shared<Buffer>(allocate_host("model", static_cast<std::size_t>(bytes)));
  try {
    quantize_rows(matrix, memory->data());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    fail(error.code(), "tensor '{}' in 4 bits: {}", weight.name, error.what());
  }
  return {ConstTensor(memory->data(), DType::q4, matrix.shape), memory};
}

WeightData WeightConverter::convert(const Weight& weight, const WeightData& data) {
  error_ = {};
  const DType type = data.view.dtype;
  const DType wanted = weight.kind == WeightKind::matrix ? weight_dtype(weight.gear) : DType::f32;
  require_convertible(weight, data.view);
  if (type == DType::q4 && wanted != type) {
    fail(ErrorCode::mismatch,
         "tensor '{}' is stored in 4 bits and was asked for in {}: choose q4 or q4q8, or open the model that "
         "it was made from",
         weight.name, name(wanted));
  }
  if (type == wanted && (weight.kind == WeightKind::matrix || !data.random)) return data;
  const HostTensor tensor = data.on_host();
  if (type == wanted) return tensor;
  if (wanted == DType::q4) return quantize(weight, tensor.view);
  return wanted == DType::bf16 ? round_to_bf16(tensor.view) : widen_to_f32(tensor.view);
}

}  // namespace tandem
