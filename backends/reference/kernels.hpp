#pragma once

#include "core/ops.hpp"

/// One kernel per operator: the formula of core/ops.hpp in float64. The arguments have passed validate().
/// Token ids, row numbers and positions are asserted. Elementwise kernels and norms may write over their own
/// input.
namespace tandem::reference {

// kernels_common.cpp
void run(const Embed& op);
void run(const GatherRows& op);
void run(const RmsNorm& op);
void run(const Linear& op);
void run(const SiluMul& op);

// kernels_gdn.cpp
void run(const GdnGates& op);
void run(const GdnConv& op);
void run(const GdnQkNorm& op);
void run(const GdnDelta& op);
void run(const GdnGatedNorm& op);

// kernels_attention.cpp
void run(const HeadNormRope& op);
void run(const KvAppend& op);
void run(const Attention& op);
void run(const SigmoidGate& op);

}  // namespace tandem::reference
