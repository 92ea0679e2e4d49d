#pragma once

#include "tests/kernels/case_builder.hpp"

namespace tandem::test {

/// A random case of an operator.
Case make_case(OpKind kind, std::uint64_t seed, Scale scale);

// One for each operator, in cases_*.cpp.
Case embed_case(CaseBuilder b);
Case gather_rows_case(CaseBuilder b);
Case rms_norm_case(CaseBuilder b);
Case linear_case(CaseBuilder b);
Case silu_mul_case(CaseBuilder b);
Case gdn_gates_case(CaseBuilder b);
Case gdn_conv_case(CaseBuilder b);
Case gdn_qk_norm_case(CaseBuilder b);
Case gdn_delta_case(CaseBuilder b);
Case gdn_gated_norm_case(CaseBuilder b);
Case head_norm_rope_case(CaseBuilder b);
Case kv_append_case(CaseBuilder b);
Case attention_case(CaseBuilder b);
Case sigmoid_gate_case(CaseBuilder b);

}  // namespace tandem::test
