#include "graph/model/gguf_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.hpp"
#include "core/host_memory.hpp"
#include "core/numerics.hpp"
#include "core/numerics64.hpp"

namespace tandem {
namespace {

constexpr std::uint32_t kF32 = 0;
constexpr std::string_view kQ4_0 = "Q4_0";

/// Memory that a HostTensor can own.
std::shared_ptr<void> make_room(std::int64_t bytes) {
  const auto buffer =
      std::make_shared<Buffer>(allocate_host("weights of a GGUF file", static_cast<std::size_t>(bytes)));
  return {buffer, buffer->data()};
}

/// log(decay), as a bf16 if the decay was made from one.
float log_of_decay(double decay) {
  const auto exact = static_cast<float>(log64(decay));
  const float short_form = num::widen(round_to_bf16(exact));
  const double tolerance = decay * 0x2p-23;
  return std::abs(exp64(static_cast<double>(short_form)) - decay) <= tolerance ? short_form : exact;
}

void serially(std::int64_t n, const std::function<void(std::int64_t, std::int64_t)>& body) { body(0, n); }

}  // namespace

std::string_view name(GgufForm form) {
  switch (form) {
    case GgufForm::in_place:
      return "used in place";
    case GgufForm::reordered:
      return "copied with its heads reordered";
    case GgufForm::restored:
      return "copied with the converter's arithmetic undone";
    case GgufForm::repacked:
      return "repacked to q4 without loss";
    case GgufForm::dequantised:
      return "dequantised to f32";
    case GgufForm::requantised:
      return "quantised to q4, with a loss";
    case GgufForm::rounded:
      return "rounded to bf16";
  }
  return "?";
}

/// Where value heads lie in a tensor: in each of `outer` stretches, `prefix` elements, then heads of `size`.
struct GgufWeights::Heads {
  std::int64_t outer = 1;
  std::int64_t prefix = 0;
  std::int64_t size = 0;  ///< 0: nothing to reorder

  bool whole_blocks(const GgmlType& type) const {
    return prefix % type.block_elements == 0 && size % type.block_elements == 0;
  }
};

/// A tensor's blocks in memory.
struct GgufWeights::Blocks {
  const GgmlType* type;
  Shape shape;
  const std::byte* data;
  std::shared_ptr<const void> owner;

  std::int64_t count() const { return shape.elements() / type->block_elements; }
  std::int64_t bytes_of(std::int64_t elements) const {
    return elements / type->block_elements * type->block_bytes;
  }
  std::int64_t bytes() const { return bytes_of(shape.elements()); }

  /// The values in memory of their own.
  std::shared_ptr<void> dequantised(const ParallelFor& parallel_for) const {
    const std::shared_ptr<void> values =
        make_room(shape.elements() * static_cast<std::int64_t>(sizeof(float)));
    parallel_for(count(), [&](std::int64_t begin, std::int64_t end) {
      dequantize_blocks(*type, data, begin, end,
                        static_cast<float*>(values.get()) + begin * type->block_elements);
    });
    return values;
  }
  Blocks as_f32(const ParallelFor& parallel_for) const {
    const std::shared_ptr<void> values = dequantised(parallel_for);
    return {find_ggml_type(kF32), shape, static_cast<const std::byte*>(values.get()), values};
  }
  HostTensor as_q4(const ParallelFor& parallel_for) const {
    const std::shared_ptr<void> to = make_room(storage_bytes(DType::q4, shape.elements()));
    parallel_for(count(), [&](std::int64_t begin, std::int64_t end) {
      repack_q4_0(data, count(), begin, end, to.get());
    });
    return {ConstTensor(to.get(), DType::q4, shape), to};
  }
};

GgufWeights::GgufWeights(std::shared_ptr<const GgufFile> file, const ModelConfig& config)
    : file_(std::move(file)),
      key_heads_(config.linear_num_key_heads),
      value_heads_(config.linear_num_value_heads),
      value_head_dim_(config.linear_value_head_dim),
      key_rows_(2 * config.key_dim()) {}

void GgufWeights::require_size(const GgufPlace& place, std::string_view what, std::int64_t expected,
                               std::int64_t found) const {
  if (found == expected) return;
  fail(ErrorCode::mismatch, "{}: tensor '{}' has {} {}, the configuration asks for {}",
       file_->path().string(), place.tensor, found, what, expected);
}

GgufWeights::Heads GgufWeights::heads_of(const GgufPlace& place, const GgufTensorInfo& info) const {
  const std::int64_t rows = info.dims.front(), columns = info.dims.back();
  const std::int64_t row = Shape::from(info.dims).elements_from(1), head_rows = value_head_dim_;
  Heads heads;
  switch (place.heads) {
    case GgufHeads::none:
      return heads;
    case GgufHeads::rows:
      require_size(place, "rows", value_heads_ * head_rows, rows);
      heads.size = head_rows * row;
      break;
    case GgufHeads::channels:
      require_size(place, "rows", key_rows_ + value_heads_ * head_rows, rows);
      heads.prefix = key_rows_ * row;
      heads.size = head_rows * row;
      break;
    case GgufHeads::single:
      require_size(place, "rows", value_heads_, rows);
      heads.size = row;
      break;
    case GgufHeads::columns:
      require_size(place, "columns", value_heads_ * value_head_dim_, columns);
      heads.outer = Shape::from(info.dims).elements() / columns;
      heads.size = value_head_dim_;
      break;
  }
  // With one value head for each key head both orders are the same, and with one key head too.
  if (key_heads_ == value_heads_ || key_heads_ == 1) heads.size = 0;
  return heads;
}

GgufWeights::Stored GgufWeights::stored(const std::string& weight, bool keep_q4) const {
  const GgufPlace place = gguf_place(weight);
  const GgmlType& type = file_->readable_type(place.tensor);
  const GgufTensorInfo& info = file_->info(place.tensor);
  const Heads heads = heads_of(place, info);
  const bool plain = type.name == "F32" || type.name == "BF16";
  Stored stored{
      .tensor = place.tensor, .type = type.name, .bytes = info.bytes, .shape = Shape::from(info.dims)};
  const bool keeps_blocks = heads.size == 0 || heads.whole_blocks(type);
  if (place.change != GgufChange::none) {
    stored.form = GgufForm::restored;
  } else if (keep_q4 && type.name == kQ4_0 && info.dims.size() == 2 && keeps_blocks) {
    stored.form = GgufForm::repacked;
  } else if (!plain) {
    stored.form = GgufForm::dequantised;
  } else {
    stored.form = heads.size == 0 ? GgufForm::in_place : GgufForm::reordered;
  }
  if (stored.form == GgufForm::repacked) stored.dtype = DType::q4;
  if (stored.form == GgufForm::in_place || stored.form == GgufForm::reordered) {
    stored.dtype = *plain_dtype(type);
  }
  return stored;
}

/// From [r][key head] to [key head][r]. REQUIRES: heads of whole blocks.
GgufWeights::Blocks GgufWeights::reordered(const Blocks& from, const Heads& heads) const {
  const std::shared_ptr<void> to = make_room(from.bytes());
  const std::int64_t size = from.bytes_of(heads.size), prefix = from.bytes_of(heads.prefix);
  const std::int64_t stretch = prefix + value_heads_ * size, share = value_heads_ / key_heads_;
  for (std::int64_t o = 0; o < heads.outer; ++o) {
    const std::byte* source = from.data + o * stretch;
    std::byte* target = static_cast<std::byte*>(to.get()) + o * stretch;
    std::memcpy(target, source, static_cast<std::size_t>(prefix));
    for (std::int64_t head = 0; head < value_heads_; ++head) {
      const std::int64_t tiled = head % share * key_heads_ + head / share;
      std::memcpy(target + prefix + head * size, source + prefix + tiled * size,
                  static_cast<std::size_t>(size));
    }
  }
  return {from.type, from.shape, static_cast<const std::byte*>(to.get()), to};
}

void GgufWeights::restore(const GgufPlace& place, HostTensor& tensor, float* values) const {
  const std::int64_t count = tensor.view.shape.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    if (place.change == GgufChange::one_added) {
      values[i] -= 1.0f;
      continue;
    }
    if (!(values[i] < 0) || !std::isfinite(values[i])) {
      fail(ErrorCode::corrupt, "{}: tensor '{}' has {}, expected numbers below 0", file_->path().string(),
           place.tensor, values[i]);
    }
    values[i] = log_of_decay(-static_cast<double>(values[i]));
  }
}

HostTensor GgufWeights::load(const std::string& weight, bool keep_q4) const {
  return load(weight, keep_q4, serially);
}

HostTensor GgufWeights::load(const std::string& weight, bool keep_q4, const ParallelFor& parallel_for) const {
  const Stored what = stored(weight, keep_q4);
  const GgufPlace place = gguf_place(weight);
  const Heads heads = heads_of(place, file_->info(place.tensor));
  Blocks blocks{&file_->readable_type(place.tensor), what.shape, file_->data(place.tensor).data(),
                file_->owner()};
  if (heads.size != 0) {
    if (!heads.whole_blocks(*blocks.type)) blocks = blocks.as_f32(parallel_for);
    blocks = reordered(blocks, heads);
  }
  if (what.form == GgufForm::repacked) return blocks.as_q4(parallel_for);
  if (what.form == GgufForm::in_place || what.form == GgufForm::reordered) {
    return {ConstTensor(blocks.data, what.dtype, what.shape), blocks.owner};
  }
  const std::shared_ptr<void> values = blocks.dequantised(parallel_for);
  HostTensor tensor{ConstTensor(values.get(), DType::f32, what.shape), values};
  if (what.form == GgufForm::restored) restore(place, tensor, static_cast<float*>(values.get()));
  return tensor;
}

}  // namespace tandem
