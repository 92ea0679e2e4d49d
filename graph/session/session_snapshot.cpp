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
  const auto layer = [&](int which) { return session.layer_state(sequence, which); };
  const SnapshotHeader header{.contract = make_contract(session.state().geometry(), session.tokens(sequence),
                                                        session.model().fingerprint(), layer),
                              .ids = {ids.begin(), ids.end()},
                              .sampling = sampling,
                              .unsafe = session.state().unsafe(sequence)};
  save_snapshot(path, header, layer, before_rename);
}

SequenceId load_sequence(Session& session, const Snapshot& snapshot) {
  auto exclusive = session.exclusive();
  const SequenceOptions options = session.sequence_options();
  // The model first: with another one the vocabulary is another, too, and no sign of damage.
  require_fit(session.state(), snapshot, session.model().fingerprint());
  require_in_vocabulary(snapshot.ids(), session.vocab_size(), ErrorCode::corrupt, snapshot.where());
  const SequenceId sequence = import_snapshot(session.state(), options, snapshot,
                                              session.model().fingerprint(), &exclusive.state_lock());
  const std::span<const TokenId> fed =
      std::span(snapshot.ids()).first(snapshot.ids().size() - snapshot.pending_ids().size());
  try {
    session.scheduler().history().note(sequence, 0, fed);
  } catch (...) {
    session.state().close(sequence);
    throw;
  }
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
