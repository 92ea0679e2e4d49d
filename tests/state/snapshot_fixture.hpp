#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "state/snapshot.hpp"
#include "tests/state/state_fixture.hpp"

namespace tandem::testing {

inline constexpr const char* kModel = "0123456789abcdef0123456789abcdef";

/// Numbers inside the bytes of a file.
template <class T>
T number_at(const std::string& bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, &bytes.at(offset), sizeof value);
  return value;
}
template <class T>
void put(std::string& bytes, std::size_t offset, T value) {
  std::memcpy(&bytes.at(offset), &value, sizeof value);
}

/// Makes the last 16 of the first `end` bytes the checksum of those before.
inline void seal(std::string& bytes, std::size_t end) {
  const std::size_t summed = end - static_cast<std::size_t>(kChecksumBytes);
  const Checksum sum = checksum(std::as_bytes(std::span(bytes)).first(summed));
  put(bytes, summed, sum.high);
  put(bytes, summed + 8, sum.low);
}
/// Makes header and file agree with their checksums again. REQUIRES: the header's length was not changed.
inline void seal_all(std::string& bytes) {
  seal(bytes, number_at<std::uint64_t>(bytes, 16));
  seal(bytes, bytes.size());
}

/// Where the entry of a layer begins: after the numbers and five texts. The layout is written out here once
/// more, so that a change of the format does not go unseen.
inline std::size_t layer_entry(const std::string& bytes, std::size_t layer) {
  std::size_t at = 176;
  for (int text = 0; text < 5; ++text) at += 4 + number_at<std::uint32_t>(bytes, at);
  return at + 40 * layer;
}

/// Sequences of up to 20 tokens on two backends, and a folder for files.
class SnapshotTest : public StateTest {
 protected:
  SnapshotTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tandem-snapshot-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary directory");
    folder_ = pattern;
  }
  ~SnapshotTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path(const std::string& name = "a.tds") const { return folder_ / name; }

  /// A file of a sequence of `tokens` tokens, which is closed again; its ids are 100, 101, ... and one
  /// pending.
  std::filesystem::path save(int tokens, const std::string& name = "a.tds") {
    const SequenceId id = open_split();
    if (tokens > 0) advance(manager, id, step(tokens));
    save_snapshot(path(name), manager, id, kModel, ids(tokens + 1), kSampling);
    manager.close(id);
    return path(name);
  }

  static std::vector<std::uint32_t> step(int tokens) {
    std::vector<std::uint32_t> step;
    for (int i = 0; i < tokens; ++i) step.push_back(static_cast<std::uint32_t>(100 + i));
    return step;
  }
  static std::vector<TokenId> ids(int count) {
    std::vector<TokenId> ids;
    for (int i = 0; i < count; ++i) ids.push_back(100 + i);
    return ids;
  }

  static std::string read(const std::filesystem::path& from) {
    std::ifstream file(from, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::filesystem::path write(const std::string& bytes, const std::string& name = "b.tds") const {
    // A file that is overwritten in place while the old one was mapped may wait for the disk.
    std::filesystem::remove(path(name));
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  static SequenceOptions on(std::vector<int> home) {
    return {.residency = Residency::per_layer, .home = std::move(home)};
  }

  static constexpr SnapshotSampling kSampling{.temperature = 0.8, .top_k = 40, .top_p = 0.95, .seed = 7};

 private:
  std::filesystem::path folder_;
};

}  // namespace tandem::testing
