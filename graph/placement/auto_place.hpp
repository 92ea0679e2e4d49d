#pragma once

#include <functional>
#include <string>

#include "graph/placement/session_plan.hpp"

namespace tandem {

/// A placement's rules and, where nobody wrote them, why they are so.
struct Rules {
  std::string text;
  std::string reason;  ///< for every line of the plan; empty: the rules themselves
  std::string note;    ///< SessionPlan::note
};

/// The plan for "auto": the most layers on the first device, beginning with everything, that fit on every
/// backend; what fits nowhere is planned on the CPU. `plan` makes a plan of rules.
SessionPlan auto_place(const Context& context, int layers,
                       const std::function<SessionPlan(const Rules&)>& plan);

/// The rules for --gpu-layers as users of llama.cpp know it: the last `count` layers on the first device,
/// with more than there are embedding and head too, none with 0. Throws Error(unsupported) when there is no
/// device, with the reasons. REQUIRES: count >= 0.
std::string gpu_layers_rules(const Context& context, std::int64_t count, int layers);

}  // namespace tandem
