#include <algorithm>
#include <map>
#include <set>

#include "core/random.hpp"
#include "tests/state/snapshot_fixture.hpp"

/// Damaged and forged snapshots: every one is refused by name, and the manager does not notice.
namespace tandem::testing {
namespace {

constexpr int kMutations = 2000;

/// One mutation; a pure function of its number.
class Mutation {
 public:
  Mutation(std::string bytes, const SnapshotLayout& layout, std::uint64_t number)
      : bytes_(std::move(bytes)), layout_(layout), random_("snapshot", number) {}

  std::string make() {
    switch (below(11)) {
      case 0:
      case 1:
        flip();
        break;
      case 2:
        bytes_.resize(below(bytes_.size()));
        break;
      case 3:
        for (std::size_t more = 1 + below(200); more > 0; --more)
          bytes_ += static_cast<char>(random_.bits(next_++));
        break;
      case 4:
        put(bytes_, 8, static_cast<std::int32_t>(kSnapshotVersion + 1 + below(1000)));
        seal_all(bytes_);
        break;
      case 5:
        swap_layers();
        break;
      case 6:
        change_number();
        break;
      case 7:
        change_entry();
        break;
      case 8:
        change_text();
        break;
      case 9:
        change_arithmetic();
        break;
      default:
        swap_sizes();
        break;
    }
    return std::move(bytes_);
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.bits(next_++) % n); }

  void flip() {
    std::set<std::size_t> bits;  // each once, as two flips of one bit are none
    for (std::size_t flips = 1 + below(3); flips > 0; --flips) bits.insert(below(8 * bytes_.size()));
    for (const std::size_t bit : bits) bytes_[bit / 8] = static_cast<char>(bytes_[bit / 8] ^ 1 << bit % 8);
  }
  /// The data of two layers of the same size, behind a file checksum that agrees.
  void swap_layers() {
    const std::vector<std::pair<int, int>> pairs{{0, 1}, {0, 3}, {1, 3}, {2, 4}};
    const auto [a, b] = pairs[below(pairs.size())];
    const auto begin = [&](int layer) { return bytes_.begin() + layout_.layers[layer].offset; };
    std::swap_ranges(begin(a), begin(a) + layout_.layers[a].bytes, begin(b));
    seal(bytes_, bytes_.size());
  }
  /// Sizes and counts, to a value near, huge or arbitrary, behind checksums that agree.
  void change_number() {
    // At 112 to 176 is the sampling, any values of which make a proper file; at 184 are the layers and the
    // arithmetic version.
    constexpr std::size_t kNumbers[] = {16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 184};
    const std::size_t at = kNumbers[below(std::size(kNumbers))];
    const std::uint64_t old = number_at<std::uint64_t>(bytes_, at), arbitrary = random_.bits(next_++);
    // One more id would be a padding zero read as token 0: a proper file. One less is none.
    const std::uint64_t values[] = {
        old - 1,           at == 104 ? 0 : old + 1, 0,         std::uint64_t{1} << 63,
        ~std::uint64_t{0}, std::uint64_t{1} << 62,  arbitrary, arbitrary >> 40};
    const std::uint64_t value = values[below(std::size(values))];
    put(bytes_, at, value == old ? old ^ 2 : value);
    reseal_what_can_be();
  }
  /// A layer's kind, reserved word, offset, size or checksum.
  void change_entry() {
    const std::size_t at = layer_entry(bytes_, below(layout_.layers.size())) + 8 * below(5);
    put(bytes_, at, number_at<std::uint64_t>(bytes_, at) ^ std::uint64_t{1} << below(64));
    reseal_what_can_be();
  }
  /// A layout, the head order or the model.
  void change_text() {
    const std::size_t end = layer_entry(bytes_, 0), at = 192 + below(end - 192);
    bytes_[at] = static_cast<char>(bytes_[at] ^ static_cast<char>(1 + below(255)));
    reseal_what_can_be();
  }
  void change_arithmetic() {
    put(bytes_, 188, static_cast<std::int32_t>(kArithmeticVersion + 1 + below(1000)));
    reseal_what_can_be();
  }
  /// Two sizes for one another, which changes no number of bytes.
  void swap_sizes() {
    constexpr std::pair<std::size_t, std::size_t> kPairs[] = {{40, 48}, {48, 56}, {40, 56}, {80, 88}};
    const auto [a, b] = kPairs[below(std::size(kPairs))];
    const auto first = number_at<std::uint64_t>(bytes_, a);
    put(bytes_, a, number_at<std::uint64_t>(bytes_, b));
    put(bytes_, b, first);
    reseal_what_can_be();
  }
  /// The mutation may have changed the header's length itself.
  void reseal_what_can_be() {
    const auto header = number_at<std::uint64_t>(bytes_, 16);
    if (header >= 208 && header < bytes_.size()) seal(bytes_, header);
    seal(bytes_, bytes_.size());
  }

  std::string bytes_;
  const SnapshotLayout& layout_;
  CounterRandom random_;
  std::uint64_t next_ = 0;
};

/// What refusals say. Each has to be met by some mutation, or deeper checks were never reached.
constexpr const char* kRefusals[] = {
    "no snapshot",        "truncated",     "grown",         "format version",
    "header was changed", "was changed: ", "header: layer", "header: elements",
    "a length of",        "are left",      "contradict",    "key_dim",
    "kv_heads",           "head_order",    "model:",        "unknown kind",
    "printable",          "seen ",         "conv_layout",   "arithmetic version"};

class SnapshotMutationTest : public SnapshotTest {
 protected:
  /// A file of six tokens whose layers all differ, so that it shows when they are swapped.
  std::filesystem::path save_random() {
    std::vector<std::vector<std::byte>> data;
    for (const LayerKind kind : small_geometry().layers) {
      const CounterRandom random("layer", data.size());
      std::vector<std::byte>& layer = data.emplace_back(layer_state_bytes(small_geometry(), kind, 6));
      for (std::size_t i = 0; i < layer.size(); ++i) layer[i] = static_cast<std::byte>(random.bits(i));
    }
    const std::vector<std::span<const std::byte>> layers(data.begin(), data.end());
    const SequenceId id = import_state(manager, on({0, 0, 0, 0, 0}), 6, layers);
    save_snapshot(path(), manager, id, kModel, ids(7), kSampling);
    manager.close(id);
    return path();
  }
};

TEST_F(SnapshotMutationTest, NoDamagedFileIsAcceptedOrChangesAnything) {
  const SequenceId one = open_on(0), two = open_split();
  advance(manager, one, step(5));
  advance(manager, two, step(7));
  const std::string original = read(save_random());
  const SnapshotLayout layout = Snapshot::open(path()).layout();
  const std::vector<StateUsage> usage = manager.usage();
  const auto states = std::pair(export_all(manager, one), export_all(manager, two));
  std::map<std::string, int> seen;
  for (int n = 0; n < kMutations; ++n) {
    SCOPED_TRACE(fmt::format("mutation {}", n));
    const std::string bytes = Mutation(original, layout, static_cast<std::uint64_t>(n)).make();
    ASSERT_FALSE(bytes == original);
    try {
      import_snapshot(manager, on({0, 1, 1, 0, 1}), Snapshot::open(write(bytes)), kModel);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_THAT(error.code(),
                  ::testing::AnyOf(ErrorCode::corrupt, ErrorCode::unsupported, ErrorCode::mismatch))
          << message;
      EXPECT_EQ(message.find('\n'), message.npos) << message;
      EXPECT_THAT(message, ::testing::HasSubstr("b.tds"));
      for (const char* words : kRefusals) seen[words] += message.find(words) != message.npos ? 1 : 0;
    }
    EXPECT_EQ(manager.usage(), usage);
    EXPECT_TRUE(std::pair(export_all(manager, one), export_all(manager, two)) == states);
  }
  for (const auto& [words, count] : seen) EXPECT_GT(count, 0) << "no mutation reached: " << words;
  EXPECT_NO_THROW(
      manager.close(import_snapshot(manager, on({0, 1, 1, 0, 1}), Snapshot::open(path()), kModel)));
}

}  // namespace
}  // namespace tandem::testing
