#include "tools/open_session.hpp"

#include <cstdio>

#include "graph/placement/auto_place.hpp"
#include "tools/progress.hpp"

namespace tandem::tools {
SessionOptions for_one_sequence() {
  SessionOptions session;
  session.sequences = 1;
  return session;
}

SessionOptions with_placement(const ModelOptions& options, const Context& context, std::int64_t layers,
                              SessionOptions session) {
  session.place = options.place;
  if (options.gpu_layers) {
    if (options.place != ModelOptions().place) {
      fail(ErrorCode::invalid_argument, "--gpu-layers and --place {}: both say where layers run; give one",
           options.place);
    }
    session.place = gpu_layers_rules(context, *options.gpu_layers, static_cast<int>(layers));
  }
  if (session.context_tokens == 0) session.context_tokens = options.context;
  session.mirror_every = options.mirror_every;
  session.poison = options.poison;
  session.verify_transfers = options.verify_transfers;
  session.faults = options.faults;
  return session;
}

void print_note(const SessionPlan& planned) {
  if (!planned.note.empty()) tell(planned.note);
}

std::unique_ptr<Session> open_session(const ModelOptions& options, const Context& context,
                                      const std::shared_ptr<const Model>& model, SessionOptions session) {
  session = with_placement(options, context, model->config().num_hidden_layers, std::move(session));
  Progress progress("loading weights onto their backends");
  session.watch.progress = [&](std::int64_t done, std::int64_t total) {
    progress.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
  };
  session.watch.interrupted = interrupted;
  auto opened = std::make_unique<Session>(context, model, session);
  print_note(opened->planned());
  return opened;
}

}  // namespace tandem::tools
