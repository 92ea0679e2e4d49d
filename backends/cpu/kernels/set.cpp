#include "backends/cpu/kernels/set.hpp"

#define TANDEM_TEXT_OF(x) #x
#define TANDEM_TEXT(x) TANDEM_TEXT_OF(x)

namespace tandem::cpu {

const KernelSet TANDEM_KERNEL_SET = {
    TANDEM_TEXT(TANDEM_ISA),
    {TANDEM_ISA::embed, TANDEM_ISA::gather_rows, TANDEM_ISA::rms_norm, TANDEM_ISA::linear,
     TANDEM_ISA::silu_mul, TANDEM_ISA::gdn_gates, TANDEM_ISA::gdn_conv, TANDEM_ISA::gdn_qk_norm,
     TANDEM_ISA::gdn_delta, TANDEM_ISA::gdn_gated_norm, TANDEM_ISA::head_norm_rope, TANDEM_ISA::kv_append,
     TANDEM_ISA::attention, TANDEM_ISA::sigmoid_gate},
    TANDEM_ISA::piece_digest};

}  // namespace tandem::cpu
