#pragma once

#include <memory>

#include "tools/command.hpp"

namespace tandem::tools {

/// What a command has that follows one text: no room for a fork.
SessionOptions for_one_sequence();

/// Completes a session's options with the shared ones: placement, and context unless that was set already.
/// Throws Error(unsupported) when --gpu-layers finds no device, with the reasons; Error(invalid_argument)
/// when it meets another --place than the default.
SessionOptions with_placement(const ModelOptions& options, const Context& context, std::int64_t layers,
                              SessionOptions session);

/// Says on standard error what "auto" could not do, if anything.
void print_note(const SessionPlan& planned);

/// A session placed as asked for, with a progress line on a terminal while weights are loaded, and ended by
/// an interrupt.
std::unique_ptr<Session> open_session(const ModelOptions& options, const Context& context,
                                      const std::shared_ptr<const Model>& model, SessionOptions session);

}  // namespace tandem::tools
