#pragma once

#include <string>

#include "tools/fallback/report.hpp"

namespace tandem::tools {

/// The experiment as a page for a browser that needs no other file: the numbers, how far the logits went from
/// the undisturbed ones at every token, and where each layer's state was, policy by policy.
std::string to_html(const FallbackReport& report);

}  // namespace tandem::tools
