#pragma once

#include "backends/cpu/kernels.hpp"

/// The fast kernels, one function an operator. These sources are compiled once for each instruction set; the
/// build defines TANDEM_ISA as the namespace (baseline, avx2, avx512).
namespace tandem::cpu::TANDEM_ISA {

void embed(const Embed& op, std::int64_t begin, std::int64_t end);
void gather_rows(const GatherRows& op, std::int64_t begin, std::int64_t end);
void rms_norm(const RmsNorm& op, std::int64_t begin, std::int64_t end);
void linear(const Linear& op, std::int64_t begin, std::int64_t end);
/// linear with a q4 weight.
void q4_linear(const Linear& op, std::int64_t begin, std::int64_t end);
void silu_mul(const SiluMul& op, std::int64_t begin, std::int64_t end);
void gdn_gates(const GdnGates& op, std::int64_t begin, std::int64_t end);
void gdn_conv(const GdnConv& op, std::int64_t begin, std::int64_t end);
void gdn_qk_norm(const GdnQkNorm& op, std::int64_t begin, std::int64_t end);
void gdn_delta(const GdnDelta& op, std::int64_t begin, std::int64_t end);
void gdn_gated_norm(const GdnGatedNorm& op, std::int64_t begin, std::int64_t end);
void head_norm_rope(const HeadNormRope& op, std::int64_t begin, std::int64_t end);
void kv_append(const KvAppend& op, std::int64_t begin, std::int64_t end);
void attention(const Attention& op, std::int64_t begin, std::int64_t end);
void sigmoid_gate(const SigmoidGate& op, std::int64_t begin, std::int64_t end);

void piece_digest(const void* piece, std::size_t bytes, unsigned char* digest);

}  // namespace tandem::cpu::TANDEM_ISA
