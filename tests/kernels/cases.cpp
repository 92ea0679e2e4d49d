#include "tests/kernels/cases.hpp"

namespace tandem::test {
namespace {

/// In the order of OpKind.
constexpr Case (*kMakers[kOpKinds])(CaseBuilder) = {
    embed_case,          gather_rows_case, rms_norm_case,    linear_case,       silu_mul_case,
    gdn_gates_case,      gdn_conv_case,    gdn_qk_norm_case, gdn_delta_case,    gdn_gated_norm_case,
    head_norm_rope_case, kv_append_case,   attention_case,   sigmoid_gate_case,
};

}  // namespace

Case make_case(OpKind kind, std::uint64_t seed, Scale scale) {
  return kMakers[static_cast<int>(kind)](CaseBuilder(kind, seed, scale));
}

}  // namespace tandem::test
