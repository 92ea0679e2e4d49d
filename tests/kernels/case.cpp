#include "tests/kernels/case.hpp"

#include <fmt/format.h>

namespace tandem::test {

std::string Case::text() const {
  std::string text = fmt::format("{}, seed {}:", name(kind), seed);
  for (const Operand& operand : operands) text += " " + operand.text() + ";";
  return notes.empty() ? text : text + " " + notes;
}

}  // namespace tandem::test
