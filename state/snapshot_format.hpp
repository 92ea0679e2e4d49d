#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/sampling_options.hpp"
#include "core/text/token.hpp"
#include "state/contract.hpp"

namespace tandem {

/// The bytes of a snapshot file; state/README.md describes them one by one. Plain functions without state,
/// safe to use from several threads.
inline constexpr std::int32_t kSnapshotVersion = 2;
inline constexpr std::int64_t kSnapshotAlignment = 64;  ///< of the header's end and of each layer's data
inline constexpr std::int64_t kChecksumBytes = 16;

/// What stands before the layers' data.
struct SnapshotHeader {
  StateContract contract;    ///< `layers` are the checksums of the data; page_tokens is not written
  std::vector<TokenId> ids;  ///< those that the state has seen, contract.tokens of them, then those to be fed
                             ///< next
  /// How the sequence chooses its next tokens, carried for whoever continues it and not interpreted here. The
  /// draws depend on the seed and the position alone, and the position is the number of tokens.
  std::optional<SamplingOptions> sampling;
  bool unsafe = false;  ///< it went on without its state once (unsafe_restart.hpp)
};

/// Where things are in the file. Follows from the header.
struct SnapshotLayout {
  struct Part {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
  };
  std::int64_t header_bytes = 0;  ///< its checksum is the last 16 of them
  std::vector<Part> layers;
  std::int64_t file_bytes = 0;  ///< the whole file's checksum is the last 16 of them
};

/// Throws Error(invalid_argument) for a geometry without meaning, fewer ids than tokens, negative ids, other
/// numbers of checksums than of layers, texts of more than 255 bytes or of others than printable ASCII, and
/// sizes that 63 bits do not hold.
SnapshotLayout layout_of(const SnapshotHeader& header);

/// The header's bytes with its checksum. Throws as layout_of.
std::vector<std::byte> encode(const SnapshotHeader& header);

/// Reads the header of a file that was mapped whole, and checks it and the file's length: nothing that it
/// says about sizes has to be doubted afterwards. The data are not looked at. `where` names the file in
/// messages.
///
/// Throws Error(corrupt) for a foreign magic, a file that was cut or has grown, a header that was changed or
/// contradicts itself; Error(unsupported) for another version.
SnapshotHeader decode(std::span<const std::byte> file, std::string_view where);

}  // namespace tandem
