#pragma once

#include <cstdint>
#include <span>

#include "backends/cpu/pages.hpp"

/// The definition of the full-attention layer's own steps, one token and one head at a time, f32 in host
/// memory.
namespace tandem::cpu {

/// Positions that share one maximum. Independent of page_tokens.
inline constexpr std::int64_t kAttentionBlock = 128;

/// y = (x * (1 / sqrt(mean(x^2) + eps))) * (1 + weight).
void rms_norm_row(std::int64_t n, const float* x, const float* weight, float eps, float* y);

/// Rotates the pairs (i, i + half), i < half, in place: y1 = fma(x1, cos, -(x2 * sin)), y2 = fma(x2, cos, x1
/// * sin).
void rotate_head(std::int64_t half, const float* cos, const float* sin, float* y);

/// One query head over positions [0, count) of kv head `head`. Blocks of 128 positions; in a block: s =
/// dot(q, k) * scale, m = max s, p = exp(s - m), l = sum of p as a dot's chains, a = fma(p, v, a) in order of
/// position from +0. Blocks join in increasing order: M' = max(M, m), c = exp(M - M'), d = exp(m - M'), L =
/// fma(l, d, L * c), A = fma(a, d, A * c); the first block is taken as it is. o = A / L. Source of the online
/// form: Milakov, Gimelshein, "Online normalizer calculation for softmax" (2018).
void attend_head(const PageShape& shape, std::span<void* const> pages, std::int64_t head, std::int64_t count,
                 float scale, const float* q, float* o);

}  // namespace tandem::cpu
