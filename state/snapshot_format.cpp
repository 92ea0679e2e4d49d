#include "state/snapshot_format.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "core/shape.hpp"
#include "state/snapshot_bytes.hpp"

namespace tandem {
namespace {

constexpr std::string_view kMagic = "TANDEMSS";
constexpr std::size_t kSizesEnd = 32;      ///< magic, version, reserved, header bytes, file bytes
constexpr std::int64_t kNumbersEnd = 192;  ///< from there on the header's length depends on its contents
constexpr std::int64_t kLayerEntryBytes = 40;
constexpr std::size_t kLongestText = 255;
constexpr std::uint32_t kHasSampling = 1;  ///< a flag
constexpr std::uint32_t kUnsafe = 2;       ///< another one
/// Written where there is no sampling: zeros.
constexpr SamplingOptions kNoSampling{.temperature = 0,
                                      .top_k = 0,
                                      .top_p = 0,
                                      .seed = 0,
                                      .min_p = 0,
                                      .repeat_penalty = 0,
                                      .presence_penalty = 0,
                                      .frequency_penalty = 0,
                                      .repeat_last_n = 0};

std::int64_t padded(std::int64_t bytes) {
  return checked_add(bytes, kSnapshotAlignment - 1, "snapshot bytes") / kSnapshotAlignment *
         kSnapshotAlignment;
}

std::array<const std::string*, 5> texts(const StateContract& contract) {
  return {&contract.recurrent_layout, &contract.conv_layout, &contract.kv_layout, &contract.head_order,
          &contract.model};
}

void require_encodable(const SnapshotHeader& header) {
  const StateContract& contract = header.contract;
  validate(contract.geometry);
  if (contract.layers.size() != contract.geometry.layers.size()) {
    fail(ErrorCode::invalid_argument, "snapshot: {} checksums for {} layers", contract.layers.size(),
         contract.geometry.layers.size());
  }
  if (contract.tokens < 0 || !std::in_range<std::size_t>(contract.tokens) ||
      header.ids.size() < static_cast<std::size_t>(contract.tokens)) {
    fail(ErrorCode::invalid_argument, "snapshot: the state has seen {} tokens, {} ids were given",
         contract.tokens, header.ids.size());
  }
  for (const TokenId id : header.ids) {
    if (id < 0) fail(ErrorCode::invalid_argument, "snapshot: token id {}: expected at least 0", id);
  }
  for (const std::string* text : texts(contract)) {
    // Texts end up in messages, which are one line.
    const bool printable = std::ranges::all_of(*text, [](char c) { return c >= ' ' && c <= '~'; });
    if (text->size() > kLongestText || !printable) {
      fail(ErrorCode::invalid_argument, "snapshot: expected texts of at most {} printable ASCII characters",
           kLongestText);
    }
  }
}

std::int64_t header_bytes(const SnapshotHeader& header) {
  std::int64_t bytes = kNumbersEnd;
  for (const std::string* text : texts(header.contract)) {
    bytes += static_cast<std::int64_t>(sizeof(std::uint32_t) + text->size());
  }
  bytes += static_cast<std::int64_t>(header.contract.layers.size()) * kLayerEntryBytes;
  bytes += static_cast<std::int64_t>(header.ids.size() * sizeof(TokenId));
  return padded(bytes + kChecksumBytes);
}

/// Dimensions of a kind that no layer has are written as zeros.
RecurrentDims recurrent_dims(const StateGeometry& geometry) {
  return geometry.count(LayerKind::recurrent) > 0 ? geometry.recurrent : RecurrentDims{};
}
KvDims kv_dims(const StateGeometry& geometry) {
  return geometry.count(LayerKind::attention) > 0 ? geometry.kv : KvDims{};
}

void write_numbers(const SnapshotHeader& header, const SnapshotLayout& layout, HeaderWriter& out) {
  const StateGeometry& geometry = header.contract.geometry;
  out.raw(std::as_bytes(std::span(kMagic)));
  out.number(kSnapshotVersion);
  out.number(std::uint32_t{0});
  out.number(layout.header_bytes);
  out.number(layout.file_bytes);
  out.number(static_cast<std::uint32_t>(size_of(geometry.real)));
  out.number((header.sampling ? kHasSampling : 0) | (header.unsafe ? kUnsafe : 0));
  const RecurrentDims recurrent = recurrent_dims(geometry);
  for (const std::int64_t size : {recurrent.value_heads, recurrent.key_dim, recurrent.value_dim,
                                  recurrent.conv_channels, recurrent.conv_kernel}) {
    out.number(size);
  }
  out.number(kv_dims(geometry).kv_heads);
  out.number(kv_dims(geometry).head_dim);
  out.number(header.contract.tokens);
  out.number(static_cast<std::int64_t>(header.ids.size()));
  const SamplingOptions sampling = header.sampling.value_or(kNoSampling);
  out.number(sampling.temperature);
  out.number(sampling.top_k);
  out.number(sampling.top_p);
  out.number(sampling.seed);
  out.number(sampling.min_p);
  out.number(sampling.repeat_penalty);
  out.number(sampling.presence_penalty);
  out.number(sampling.frequency_penalty);
  out.number(sampling.repeat_last_n);
  out.number(static_cast<std::uint32_t>(geometry.layers.size()));
  out.number(header.contract.arithmetic);
}

/// Magic, version and both lengths, which every version has in the same place.
void require_whole(std::span<const std::byte> file, std::string_view where) {
  const std::string_view start(reinterpret_cast<const char*>(file.data()),
                               std::min(file.size(), kMagic.size()));
  if (!kMagic.starts_with(start)) {
    fail(ErrorCode::corrupt, "{}: no snapshot: it does not begin with {}", where, kMagic);
  }
  if (file.size() < kSizesEnd) {
    fail(ErrorCode::corrupt, "{}: truncated: it has {} bytes, a snapshot begins with {}", where, file.size(),
         kSizesEnd);
  }
  HeaderReader in(file.first(kSizesEnd).subspan(kMagic.size()), where);
  if (const auto version = in.number<std::int32_t>("version"); version != kSnapshotVersion) {
    fail(ErrorCode::unsupported,
         "{}: format version {}, this program reads version {}: save it again from the tokens", where,
         version, kSnapshotVersion);
  }
  in.number<std::uint32_t>("reserved");
  const auto header = in.number<std::uint64_t>("header bytes"),
             whole = in.number<std::uint64_t>("file bytes");
  if (whole != file.size()) {
    fail(ErrorCode::corrupt, "{}: {}: it has {} bytes and should have {}", where,
         whole > file.size() ? "truncated" : "grown", file.size(), whole);
  }
  const std::uint64_t least = kNumbersEnd + kChecksumBytes, end = whole - std::min<std::uint64_t>(whole, 16);
  if (header < least || header > end || header % kSnapshotAlignment != 0) {
    fail(ErrorCode::corrupt, "{}: header: a length of {} bytes in a file of {}", where, header, whole);
  }
}

/// The header without its checksum, which is verified.
std::span<const std::byte> checked_header(std::span<const std::byte> file, std::string_view where) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, &file[16], sizeof bytes);
  const std::span<const std::byte> header = file.first(bytes - kChecksumBytes);
  HeaderReader in(file.subspan(header.size(), kChecksumBytes), where);
  const auto high = in.number<std::uint64_t>("checksum"), low = in.number<std::uint64_t>("checksum");
  if (const Checksum found = checksum(header); !(found == Checksum{high, low})) {
    fail(ErrorCode::corrupt, "{}: the header was changed: its checksum is {}, expected {}", where,
         to_string(found), to_string(Checksum{high, low}));
  }
  return header;
}

DType read_real(HeaderReader& in, std::string_view where) {
  const auto bytes = in.number<std::uint32_t>("element size");
  if (bytes != 4 && bytes != 8) {
    fail(ErrorCode::corrupt, "{}: header: elements of {} bytes, expected 4 or 8", where, bytes);
  }
  return bytes == 4 ? DType::f32 : DType::f64;
}

void read_dims(HeaderReader& in, StateGeometry& geometry) {
  RecurrentDims& recurrent = geometry.recurrent;
  for (std::int64_t* size : {&recurrent.value_heads, &recurrent.key_dim, &recurrent.value_dim,
                             &recurrent.conv_channels, &recurrent.conv_kernel}) {
    *size = in.number<std::int64_t>("recurrent sizes");
  }
  geometry.kv.kv_heads = in.number<std::int64_t>("kv_heads");
  geometry.kv.head_dim = in.number<std::int64_t>("head_dim");
}

SamplingOptions read_sampling(HeaderReader& in) {
  SamplingOptions sampling;
  sampling.temperature = in.number<double>("temperature");
  sampling.top_k = in.number<std::int64_t>("top_k");
  sampling.top_p = in.number<double>("top_p");
  sampling.seed = in.number<std::uint64_t>("seed");
  sampling.min_p = in.number<double>("min_p");
  sampling.repeat_penalty = in.number<double>("repeat_penalty");
  sampling.presence_penalty = in.number<double>("presence_penalty");
  sampling.frequency_penalty = in.number<double>("frequency_penalty");
  sampling.repeat_last_n = in.number<std::int64_t>("repeat_last_n");
  return sampling;
}

SnapshotLayout::Part read_layer(HeaderReader& in, StateContract& contract, std::string_view where) {
  const std::size_t layer = contract.layers.size();
  const auto kind = in.number<std::uint32_t>("kind of a layer");
  if (kind > 1) fail(ErrorCode::corrupt, "{}: header: layer {}: unknown kind {}", where, layer, kind);
  contract.geometry.layers.push_back(kind == 0 ? LayerKind::recurrent : LayerKind::attention);
  in.number<std::uint32_t>("reserved");
  const auto offset = in.number<std::int64_t>("offset of a layer");
  const auto bytes = in.number<std::int64_t>("bytes of a layer");
  const auto high = in.number<std::uint64_t>("checksum of a layer");
  const auto low = in.number<std::uint64_t>("checksum of a layer");
  contract.layers.push_back({.high = high, .low = low});
  return {.offset = offset, .bytes = bytes};
}

/// What the fields say, with no thought about whether they agree; `claimed` is where it says the layers are.
SnapshotHeader read_fields(HeaderReader& in, std::string_view where, SnapshotLayout& claimed) {
  SnapshotHeader header;
  StateContract& contract = header.contract;
  contract.geometry.real = read_real(in, where);
  const auto flags = in.number<std::uint32_t>("flags");
  if ((flags & ~(kHasSampling | kUnsafe)) != 0)
    fail(ErrorCode::corrupt, "{}: header: unknown flags {}", where, flags);
  read_dims(in, contract.geometry);
  contract.tokens = in.number<std::int64_t>("tokens");
  const auto ids = in.number<std::uint64_t>("number of ids");
  const SamplingOptions sampling = read_sampling(in);
  if ((flags & kHasSampling) != 0) header.sampling = sampling;
  header.unsafe = (flags & kUnsafe) != 0;
  const auto layers = in.number<std::uint32_t>("number of layers");
  contract.arithmetic = in.number<std::int32_t>("arithmetic version");
  for (std::string* text : {&contract.recurrent_layout, &contract.conv_layout, &contract.kv_layout,
                            &contract.head_order, &contract.model}) {
    *text = in.text("a text");
  }
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    claimed.layers.push_back(read_layer(in, contract, where));
  }
  constexpr std::uint64_t kMostIds = std::uint64_t{1} << 60;  // keeps the number of bytes in 64 bits
  const auto bytes = in.raw(std::min(ids, kMostIds) * sizeof(TokenId), "the ids");
  header.ids.resize(bytes.size() / sizeof(TokenId));
  if (!bytes.empty()) std::memcpy(header.ids.data(), bytes.data(), bytes.size());
  return header;
}

void require_layers(const SnapshotLayout& expected, const SnapshotLayout& claimed, std::string_view where) {
  for (std::size_t i = 0; i < expected.layers.size(); ++i) {
    const SnapshotLayout::Part &a = expected.layers[i], &b = claimed.layers[i];
    if (a.offset != b.offset || a.bytes != b.bytes) {
      fail(ErrorCode::corrupt, "{}: header: layer {} is said to be {} bytes at {}, expected {} at {}", where,
           i, b.bytes, b.offset, a.bytes, a.offset);
    }
  }
}

}  // namespace

SnapshotLayout layout_of(const SnapshotHeader& header) {
  require_encodable(header);
  const StateContract& contract = header.contract;
  SnapshotLayout layout;
  layout.header_bytes = header_bytes(header);
  std::int64_t position = layout.header_bytes;
  for (const LayerKind kind : contract.geometry.layers) {
    const std::int64_t bytes = layer_state_bytes(contract.geometry, kind, contract.tokens);
    layout.layers.push_back({.offset = position, .bytes = bytes});
    position = padded(checked_add(position, bytes, "snapshot bytes"));
  }
  layout.file_bytes = checked_add(position, kChecksumBytes, "snapshot bytes");
  return layout;
}

std::vector<std::byte> encode(const SnapshotHeader& header) {
  const SnapshotLayout layout = layout_of(header);
  const StateContract& contract = header.contract;
  HeaderWriter out;
  write_numbers(header, layout, out);
  for (const std::string* text : texts(contract)) out.text(*text);
  for (std::size_t i = 0; i < layout.layers.size(); ++i) {
    out.number(static_cast<std::uint32_t>(contract.geometry.layers[i] == LayerKind::recurrent ? 0 : 1));
    out.number(std::uint32_t{0});
    out.number(layout.layers[i].offset);
    out.number(layout.layers[i].bytes);
    out.number(contract.layers[i].high);
    out.number(contract.layers[i].low);
  }
  out.raw(std::as_bytes(std::span(header.ids)));
  out.zeros(static_cast<std::size_t>(layout.header_bytes - kChecksumBytes) - out.size());
  const Checksum sum = checksum(out.bytes());
  out.number(sum.high);
  out.number(sum.low);
  return out.take();
}

SnapshotHeader decode(std::span<const std::byte> file, std::string_view where) {
  require_whole(file, where);
  const std::span<const std::byte> bytes = checked_header(file, where);
  HeaderReader in(bytes.subspan(kSizesEnd), where);
  SnapshotLayout claimed;
  SnapshotHeader header = read_fields(in, where, claimed);
  std::vector<std::byte> again;
  try {
    require_layers(layout_of(header), claimed, where);
    again = encode(header);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::corrupt) throw;
    fail(ErrorCode::corrupt, "{}: header: {}", where, error.what());
  }
  // One state has one file: whatever is not written in this way (reserved bytes, sizes of absent kinds,
  // lengths) was not written by us.
  if (!std::ranges::equal(bytes, std::span(again).first(std::min(bytes.size(), again.size())))) {
    fail(ErrorCode::corrupt, "{}: header: its fields contradict each other", where);
  }
  return header;
}

}  // namespace tandem
