#include "state/snapshot.hpp"

#include "core/error.hpp"
#include "core/io/new_file.hpp"
#include "state/snapshot_bytes.hpp"

namespace tandem {
namespace {

/// A file and the checksum of all that was written to it.
class SummedFile {
 public:
  explicit SummedFile(const std::filesystem::path& path) : file_(path) {}

  void write(std::span<const std::byte> bytes) {
    file_.write(bytes);
    sum_.add(bytes);
    position_ += static_cast<std::int64_t>(bytes.size());
  }
  /// Writes zeros up to here.
  void pad_to(std::int64_t position) {
    write(std::vector<std::byte>(static_cast<std::size_t>(position - position_)));
  }
  void finish(const std::function<void()>& before_rename) {
    HeaderWriter end;
    end.number(sum_.result().high);
    end.number(sum_.result().low);
    file_.write(end.bytes());
    file_.publish(before_rename);
  }

 private:
  NewFile file_;
  Checksummer sum_;
  std::int64_t position_ = 0;
};

std::string quoted(const std::filesystem::path& path) { return fmt::format("'{}'", path.string()); }

}  // namespace

void save_snapshot(const std::filesystem::path& path, const StateManager& manager, SequenceId id,
                   std::string_view model, std::span<const TokenId> ids,
                   const std::optional<SamplingOptions>& sampling,
                   const std::function<void()>& before_rename) {
  const SnapshotHeader header{.contract = make_contract(manager, id, model),
                              .ids = {ids.begin(), ids.end()},
                              .sampling = sampling,
                              .unsafe = manager.unsafe(id)};
  save_snapshot(
      path, header, [&](int layer) { return export_layer(manager, id, layer); }, before_rename);
}

void save_snapshot(const std::filesystem::path& path, const SnapshotHeader& header,
                   const std::function<LayerState(int layer)>& state_of,
                   const std::function<void()>& before_rename) {
  const SnapshotLayout layout = layout_of(header);
  SummedFile file(path);
  file.write(encode(header));
  for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
    file.pad_to(layout.layers[layer].offset);
    const LayerState state = state_of(static_cast<int>(layer));
    if (checksum(state) != header.contract.layers[layer]) {
      fail(ErrorCode::mismatch,
           "{}: layer {} is not what it was when it was read first: it changed on its way to the host, or "
           "somebody went on with the sequence (no file was written)",
           quoted(path), layer);
    }
    file.write(state.bytes);
  }
  file.pad_to(layout.file_bytes - kChecksumBytes);
  file.finish(before_rename);
}

Snapshot Snapshot::open(const std::filesystem::path& path) {
  Snapshot snapshot;
  snapshot.where_ = quoted(path);
  snapshot.file_ = MappedFile::open(path);
  snapshot.header_ = decode(snapshot.file_->bytes(), snapshot.where_);
  snapshot.layout_ = layout_of(snapshot.header_);
  snapshot.verify_data();
  return snapshot;
}

std::span<const TokenId> Snapshot::pending_ids() const {
  return std::span(header_.ids).subspan(static_cast<std::size_t>(header_.contract.tokens));
}

std::span<const std::byte> Snapshot::layer(int layer) const {
  const SnapshotLayout::Part& part = layout_.layers[static_cast<std::size_t>(layer)];
  return file_->bytes().subspan(static_cast<std::size_t>(part.offset), static_cast<std::size_t>(part.bytes));
}

void Snapshot::verify_data() const {
  // The layers first, as the whole file's checksum cannot say where the change is.
  for (std::size_t i = 0; i < layout_.layers.size(); ++i) {
    const Checksum expected = header_.contract.layers[i], found = checksum(layer(static_cast<int>(i)));
    if (!(expected == found)) {
      fail(ErrorCode::corrupt, "{}: layer {} was changed: its checksum is {}, expected {}", where_, i,
           to_string(found), to_string(expected));
    }
  }
  const std::span<const std::byte> all = file_->bytes();
  HeaderReader in(all.last(kChecksumBytes), where_);
  const auto high = in.number<std::uint64_t>("checksum"), low = in.number<std::uint64_t>("checksum");
  if (!(checksum(all.first(all.size() - kChecksumBytes)) == Checksum{high, low})) {
    fail(ErrorCode::corrupt, "{}: it was changed outside of header and layers: the file's checksum differs",
         where_);
  }
}

void require_fit(const StateManager& manager, const Snapshot& snapshot, std::string_view model) {
  const StateContract& found = snapshot.contract();
  if (found.arithmetic != kArithmeticVersion) {
    fail(
        ErrorCode::mismatch,
        "{} was computed with arithmetic version {}, this program has version {}: rebuild it from the tokens",
        snapshot.where(), found.arithmetic, kArithmeticVersion);
  }
  if (found.geometry.real != manager.geometry().real) {
    fail(ErrorCode::mismatch, "{} holds {} state, the backends here compute in {}: load it where they use {}",
         snapshot.where(), name(found.geometry.real), name(manager.geometry().real),
         name(found.geometry.real));
  }
  StateContract expected;  // its layouts and head order are this version's
  expected.geometry = manager.geometry();
  expected.tokens = found.tokens;
  expected.model = model;
  expected.layers = found.layers;
  require_match(expected, found, "snapshot " + snapshot.where());
}

SequenceId import_snapshot(StateManager& manager, const SequenceOptions& options, const Snapshot& snapshot,
                           std::string_view model, OwnedLock* lock) {
  require_fit(manager, snapshot, model);
  const StateContract& contract = snapshot.contract();
  std::vector<std::span<const std::byte>> layers;
  for (std::size_t i = 0; i < contract.layers.size(); ++i) {
    layers.push_back(snapshot.layer(static_cast<int>(i)));
  }
  SequenceOptions marked = options;
  marked.unsafe = options.unsafe || snapshot.unsafe();
  return import_state(manager, marked, contract.tokens, layers, lock);
}

}  // namespace tandem
