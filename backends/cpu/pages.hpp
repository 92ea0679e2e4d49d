#pragma once

#include <cstdint>
#include <span>

#include "core/ops.hpp"

/// Where a key or a value lies: a page is f32 [2, Hkv, page_tokens, D], all keys, then all values.
namespace tandem::cpu {

struct PageShape {
  std::int64_t kv_heads;
  std::int64_t page_tokens;
  std::int64_t head_dim;
};

[[gnu::always_inline]] static inline float* key_row(const PageShape& shape, std::span<void* const> pages,
                                                    std::int64_t head, std::int64_t position) {
  float* page = static_cast<float*>(pages.data()[position / shape.page_tokens]);
  return page + (head * shape.page_tokens + position % shape.page_tokens) * shape.head_dim;
}

[[gnu::always_inline]] static inline float* value_row(const PageShape& shape, std::span<void* const> pages,
                                                      std::int64_t head, std::int64_t position) {
  return key_row(shape, pages, shape.kv_heads + head, position);
}

/// The segment that row t belongs to. REQUIRES: there is one.
[[gnu::always_inline]] static inline const KvSegment& segment_of(std::span<const KvSegment> segments,
                                                                 std::int64_t t) {
  const KvSegment* segment = segments.data();
  while (t >= segment->range.first_row + segment->range.rows) ++segment;
  return *segment;
}

}  // namespace tandem::cpu
