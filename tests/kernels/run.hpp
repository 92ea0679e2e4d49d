#pragma once

#include <string>
#include <vector>

#include "core/backend.hpp"
#include "tests/kernels/case.hpp"

namespace tandem::test {

/// Bytes of poison before and after every operand.
inline constexpr std::int64_t kGuardBytes = 256;

/// Every operand's memory after a run, with its guard zones and its offset: what lay around it in the
/// backend.
struct Image {
  std::vector<std::vector<std::byte>> operands;
  std::vector<std::string> variants;  ///< what submit() returned, once a call
};

/// How a case's operator is submitted: whole by default.
using SubmitOn = std::function<std::string_view(Backend& backend, const Op& op)>;

/// Uploads a case between guard zones, submits its operator and downloads all of it again.
Image run(Backend& backend, const Case& test, const SubmitOn& submit = &Backend::submit);

/// The same memory before the operator ran.
std::vector<std::byte> guarded(const Operand& operand);

/// Empty if `found` is right: outputs equal `expected` by bits (a NaN equals a NaN), every output element was
/// written, and inputs, gaps between rows and guard zones are as they were. Else what is wrong: operand,
/// element, both values, how many.
std::string difference(const Case& test, const Image& expected, const Image& found);

}  // namespace tandem::test
