#include "graph/session/session_snapshot.hpp"

#include "core/error.hpp"

namespace tandem {
namespace {

void require_in_vocabulary(std::span<const TokenId> ids, std::int64_t vocab, ErrorCode code,
                           std::string_view where) {
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocab)
      fail(code, "{}: token id {} is outside of the vocabulary of {}", where, id, vocab);
  }
}

}  // namespace

void save_sequence(const std::filesystem::path& path, const Session& session, SequenceId sequence,
                   std::span<const TokenId> ids, const std::optional<SamplingOptions>& sampling,
                   const std::function<void()>& before_rename) {
  require_in_vocabulary(ids, session.vocab_size(), ErrorCode::invalid_argument, "snapshot");
  if (sampling) validate(*sampling);
  const auto exclusive = session.exclusive();
  save_snapshot(path, session.state(), sequence, session.model().fingerprint(), ids, sampling, before_rename);
}

SequenceId load_sequence(Session& session, const Snapshot& snapshot) {
  const auto exclusive = session.exclusive();
  const SequenceOptions options = session.sequence_options();
  // The model first: with another one the vocabulary is another, too, and no sign of damage.
  require_fit(session.state(), snapshot, session.model().fingerprint());
  require_in_vocabulary(snapshot.ids(), session.vocab_size(), ErrorCode::corrupt, snapshot.where());
  const SequenceId sequence =
      import_snapshot(session.state(), options, snapshot, session.model().fingerprint());
  const std::span<const TokenId> fed =
      std::span(snapshot.ids()).first(snapshot.ids().size() - snapshot.pending_ids().size());
  session.scheduler().history().note(sequence, 0, fed);
  return sequence;
}

SamplingOptions sampling_of(const Snapshot& snapshot) {
  if (!snapshot.sampling()) return {};
  try {
    validate(*snapshot.sampling());
  } catch (const Error& error) {
    fail(ErrorCode::corrupt, "{}: {}", snapshot.where(), error.what());
  }
  return *snapshot.sampling();
}

}  // namespace tandem
