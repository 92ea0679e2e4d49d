#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "core/error.hpp"
#include "graph/model/synthetic.hpp"
#include "graph/model/tensor_names.hpp"
#include "graph/session/session.hpp"

/// Times kernels of the CUDA backend at the sizes of a 27B model, as a share of the device's copy bandwidth
/// measured in the same run. Everything comes from cold memory: each measured loop goes round operands that
/// are many times the size of the second-level cache. Before a loop a large copy is queued, so that the host
/// is ahead of the device and its own time is not measured.
namespace tandem {
namespace {

constexpr int kRepeats = 9;
constexpr std::int64_t kFootprint = std::int64_t{2} << 30;  ///< bytes that a loop goes round
constexpr std::size_t kArenaBytes = std::size_t{12} << 30;
constexpr std::size_t kDelayBytes = std::size_t{4} << 30;

struct Bench {
  std::unique_ptr<Backend> backend = make_cuda_backend({});
  Buffer delay_from = backend->allocate(kDelayBytes), delay_to = backend->allocate(kDelayBytes);
  Buffer arena = backend->allocate(kArenaBytes);
  std::size_t used = 0;
  double copy_bandwidth = 0;  ///< bytes a second, read and written
  nlohmann::json results = nlohmann::json::array();

  void* memory(std::int64_t bytes) {
    void* at = static_cast<std::byte*>(arena.data()) + used;
    used += (static_cast<std::size_t>(bytes) + 255) / 256 * 256;
    if (used > kArenaBytes) fail(ErrorCode::out_of_memory, "cuda_bench: the arena is too small");
    return at;
  }
  Tensor random(DType dtype, const Shape& shape) {
    RandomTensor tensor{dtype, shape, CounterRandom("bench", used), 0.05f, 0.0f};
    const Tensor made{memory(tensor.bytes()), dtype, shape};
    const ResidentTensor source = backend->generate(tensor);
    backend->copy(made.data, source.view.data, static_cast<std::size_t>(tensor.bytes()));
    backend->synchronize();
    return made;
  }
  void forget() { used = 0; }
  void give_back_arena() { arena = {}, delay_from = {}, delay_to = {}; }

  /// Median milliseconds of what `body` submits.
  double ms_of(const std::function<void()>& body) {
    std::vector<double> times;
    for (int i = 0; i < kRepeats + 1; ++i) {
      backend->copy(delay_to.data(), delay_from.data(), kDelayBytes);
      const auto begin = backend->record();
      body();
      const auto end = backend->record();
      if (i > 0) times.push_back(end->ms_since(*begin));  // the first warms up
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  void report(const std::string& what, double us, double bytes) {
    const double share = bytes / (us * 1e-6) / copy_bandwidth;
    fmt::print("{:<44} {:>10.2f} us {:>8.0f} GB/s {:>6.1f} % of copy\n", what, us, bytes / us * 1e-3,
               100 * share);
    std::fflush(stdout);
    results.push_back({{"what", what}, {"us", us}, {"bytes", bytes}, {"share_of_copy", share}});
  }
};

void copy_bandwidth(Bench& b) {
  const double ms = b.ms_of([&] { b.backend->copy(b.delay_to.data(), b.delay_from.data(), kDelayBytes); });
  b.copy_bandwidth = 2.0 * kDelayBytes / (ms * 1e-3);
  b.report("copy 4 GiB", ms * 1e3, 2.0 * kDelayBytes);
}

/// How a projection is measured. 4-bit weights want x laid out first, which neighbours that have the same x
/// share: `laid_out` measures the projection without that.
struct Way {
  std::string_view name;
  Gear gear;
  bool laid_out = false;

  DType dtype() const { return weight_dtype(gear); }
  Activations activations() const { return gear == Gear::q4q8 ? Activations::q8 : Activations::real; }
};
constexpr Way kWays[] = {{"f32", Gear::f32},   {"bf16", Gear::bf16},
                         {"q4", Gear::q4},     {"q4, x laid out", Gear::q4, true},
                         {"q4q8", Gear::q4q8}, {"q4q8, x in 8 bits", Gear::q4q8, true}};

void linear(Bench& b, const Way& way, std::int64_t rows, std::int64_t columns, std::int64_t tokens) {
  const std::int64_t bytes = storage_bytes(way.dtype(), rows * columns);
  const std::int64_t copies = std::clamp<std::int64_t>(kFootprint / bytes, 2, 300);
  std::vector<Tensor> weights;
  for (std::int64_t i = 0; i < copies; ++i) weights.push_back(b.random(way.dtype(), Shape{rows, columns}));
  const Tensor x[2] = {b.random(DType::f32, Shape{tokens, columns}),
                       b.random(DType::f32, Shape{tokens, columns})};
  const Tensor y = b.random(DType::f32, Shape{tokens, rows});
  const double ms = b.ms_of([&] {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      b.backend->submit(Linear{x[way.laid_out ? 0 : i % 2], weights[i], {}, y, way.activations()});
    }
  });
  const double us = ms * 1e3 / static_cast<double>(copies);
  b.report(
      fmt::format("linear {} {}x{}, {} token{}", way.name, rows, columns, tokens, tokens == 1 ? "" : "s"), us,
      static_cast<double>(bytes + 4 * tokens * (rows + columns)));
  if (tokens > 1) {
    fmt::print("{:>46.1f} T multiply-adds/s\n", static_cast<double>(rows * columns * tokens) / us * 1e-6);
  }
  b.forget();
}

/// The three large projections of a Gated DeltaNet layer, one token: the first two have the same x.
void layer_projections(Bench& b, const Way& way) {
  constexpr std::int64_t kHidden = 5120, kIn = 10240, kGate = 6144;
  const std::int64_t bytes = storage_bytes(way.dtype(), kHidden * (kIn + 2 * kGate));
  const std::int64_t layers = kFootprint / bytes;
  std::vector<Tensor> in, gate, out;
  for (std::int64_t i = 0; i < layers; ++i) {
    in.push_back(b.random(way.dtype(), Shape{kIn, kHidden}));
    gate.push_back(b.random(way.dtype(), Shape{kGate, kHidden}));
    out.push_back(b.random(way.dtype(), Shape{kHidden, kGate}));
  }
  const auto real = [&](std::int64_t width) { return b.random(DType::f32, Shape{1, width}); };
  const Tensor x = real(kHidden), xc = real(kIn), z = real(kGate), onn = real(kGate), y = real(kHidden);
  const double ms = b.ms_of([&] {
    for (std::size_t i = 0; i < in.size(); ++i) {
      b.backend->submit(Linear{x, in[i], {}, xc, way.activations()});
      b.backend->submit(Linear{x, gate[i], {}, z, way.activations()});
      b.backend->submit(Linear{onn, out[i], {}, y, way.activations()});
    }
  });
  b.report(fmt::format("three projections of a layer, {}", way.name), ms * 1e3 / static_cast<double>(layers),
           static_cast<double>(bytes));
  b.forget();
}

constexpr std::int64_t kKeyHeads = 16, kHeads = 48, kDim = 128, kTaps = 4;
constexpr std::int64_t kKeys = kKeyHeads * kDim, kValues = kHeads * kDim, kChannels = 2 * kKeys + kValues;

/// What the operators between the projections of a Gated DeltaNet layer read and write, 27B sizes.
struct GdnWorkspace {
  Tensor a, b, beta, g, xc, xcv, q, k, o, z, onn;

  GdnWorkspace(Bench& bench, std::int64_t tokens) {
    const auto real = [&](const Shape& shape) { return bench.random(DType::f32, shape); };
    a = real({tokens, kHeads}), b = real({tokens, kHeads}), beta = real({tokens, kHeads}),
    g = real({tokens, kHeads});
    xc = real({tokens, kChannels}), xcv = real({tokens, kChannels});
    q = real({tokens, kKeyHeads, kDim}), k = real({tokens, kKeyHeads, kDim});
    o = real({tokens, kHeads, kDim}), z = real({tokens, kHeads, kDim}), onn = real({tokens, kHeads, kDim});
  }
};

/// What belongs to one layer: small weights, and the state before and after.
struct GdnLayer {
  Tensor a_log, dt_bias, conv_weight, conv_in, conv_out, norm, state_in, state_out;
  std::vector<ConvSegment> conv_segments;
  std::vector<DeltaSegment> delta_segments;

  GdnLayer(Bench& bench, std::int64_t tokens) {
    const auto real = [&](const Shape& shape) { return bench.random(DType::f32, shape); };
    a_log = real({kHeads}), dt_bias = real({kHeads}), conv_weight = real({kChannels, kTaps}),
    norm = real({kDim});
    conv_in = real({kTaps - 1, kChannels}), conv_out = real({kTaps - 1, kChannels});
    state_in = real({kHeads, kDim, kDim}), state_out = real({kHeads, kDim, kDim});
    conv_segments = {{{0, tokens}, conv_in, conv_out}};
    delta_segments = {{{0, tokens}, state_in, state_out}};
  }

  std::vector<Op> ops(const GdnWorkspace& w) const {
    const ConstTensor in = w.xcv;
    return {GdnGates{w.a, w.b, a_log, dt_bias, w.beta, w.g}, GdnConv{w.xc, conv_weight, conv_segments, w.xcv},
            GdnQkNorm{in.columns(0, kKeys).view_rows(kKeyHeads, kDim),
                      in.columns(kKeys, kKeys).view_rows(kKeyHeads, kDim), 1e-6, 0.088, w.q, w.k},
            GdnDelta{w.q, w.k, in.columns(2 * kKeys, kValues).view_rows(kHeads, kDim), w.g, w.beta,
                     delta_segments, w.o},
            GdnGatedNorm{w.o, w.z, norm, 1e-6, w.onn}};
  }
};

void between_projections(Bench& b, std::int64_t tokens) {
  constexpr int kLayers = 48;
  const GdnWorkspace workspace(b, tokens);
  std::vector<GdnLayer> layers;
  for (int i = 0; i < kLayers; ++i) layers.emplace_back(b, tokens);
  const auto time = [&](const std::string& what, std::size_t first, std::size_t count, double bytes) {
    const double ms = b.ms_of([&] {
      for (const GdnLayer& layer : layers) {
        const std::vector<Op> ops = layer.ops(workspace);
        for (std::size_t i = first; i < first + count; ++i) b.backend->submit(ops[i]);
      }
    });
    b.report(fmt::format("{}, {} token{}", what, tokens, tokens == 1 ? "" : "s"), ms * 1e3 / kLayers, bytes);
  };
  const double state = 2.0 * kHeads * kDim * kDim * 4;
  time("between projections", 0, 5, state);
  time("  gates", 0, 1, 0);
  time("  convolution", 1, 1, 4.0 * 4 * kChannels);
  time("  q/k norm", 2, 1, 0);
  time("  delta rule", 3, 1, state);
  time("  gated norm", 4, 1, 0);
  b.forget();
}

void rms_norm(Bench& b) {
  std::vector<Tensor> x, y;
  for (int i = 0; i < 200; ++i) {
    x.push_back(b.random(DType::f32, Shape{1, 5120}));
    y.push_back(b.random(DType::f32, Shape{1, 5120}));
  }
  const Tensor weight = b.random(DType::f32, Shape{5120});
  const double ms = b.ms_of([&] {
    for (std::size_t i = 0; i < x.size(); ++i) b.backend->submit(RmsNorm{x[i], weight, 1e-6, y[i]});
  });
  b.report("rms norm 5120", ms * 1e3 / static_cast<double>(x.size()), 5120.0 * 8);
  b.forget();
}

void attention(Bench& b, std::int64_t context) {
  constexpr std::int64_t kQueryHeads = 24, kKvHeads = 4, kHeadDim = 256, kPage = 32;
  const std::int64_t page_bytes = 2 * kKvHeads * kPage * kHeadDim * 4, count = context / kPage;
  const std::int64_t layers = std::clamp<std::int64_t>(kFootprint / (count * page_bytes), 2, 40);
  std::vector<std::vector<void*>> pages(static_cast<std::size_t>(layers));
  for (auto& list : pages) {
    const Tensor all = b.random(DType::f32, Shape{count, page_bytes / 4});
    for (std::int64_t p = 0; p < count; ++p)
      list.push_back(static_cast<std::byte*>(all.data) + p * page_bytes);
  }
  const Tensor q = b.random(DType::f32, Shape{1, kQueryHeads, kHeadDim}),
               o = b.random(DType::f32, Shape{1, kQueryHeads, kHeadDim});
  const double ms = b.ms_of([&] {
    for (const auto& list : pages) {
      const KvSegment segment{{0, 1}, context - 1, list};
      b.backend->submit(Attention{q, kKvHeads, 0.0625, kPage, std::span(&segment, 1), o});
    }
  });
  b.report(fmt::format("attention, {} positions, 1 token", context), ms * 1e3 / static_cast<double>(layers),
           static_cast<double>(count * page_bytes));
  b.forget();
}

/// A whole synthetic 27B model, a token at a time, logits fetched: against the time that reading its weights
/// would take at the copy bandwidth. A row of the embedding is all that is read of it.
void decode(Bench& b, std::string_view gears) {
  constexpr int kTokens = 48;
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_cuda_backend({}));
  const Context context(std::move(backends));
  const std::shared_ptr<const Model> model =
      make_synthetic_model(parse_synthetic_spec("27B"), Gears::parse(gears));
  SessionOptions options;
  options.place = "cuda";
  options.limits = {1, 1};
  Session session(context, model, options);
  const SequenceId sequence = session.open();
  std::vector<double> times;
  for (TokenId token = 0; token < kTokens; ++token) {
    const auto begin = std::chrono::steady_clock::now();
    session.feed(sequence, std::span(&token, 1), Outputs::last);
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  const WeightId embedding = weight_named(model->graph(), "embed_tokens.weight");
  const std::int64_t bytes = model->weight_bytes() - model->weight(embedding).view.bytes();
  b.report(fmt::format("decode 27B {}, 64 layers, one token", gears), times[times.size() / 2],
           static_cast<double>(bytes));
}

int run(const char* json_file) {
  const CudaDevices devices = cuda_devices();
  if (devices.count == 0) {
    fmt::print("skipped: {}\n", devices.reason);
    return 77;
  }
  Bench b;
  fmt::print("{}\n", b.backend->info().description);
  copy_bandwidth(b);
  for (const Way& way : kWays) {
    for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{{10240, 5120},
                                                                                          {6144, 5120},
                                                                                          {5120, 6144},
                                                                                          {17408, 5120},
                                                                                          {5120, 17408},
                                                                                          {48, 5120},
                                                                                          {248320, 5120}}) {
      linear(b, way, rows, columns, 1);
    }
    if (way.laid_out) continue;
    for (std::int64_t tokens : {2, 4, 8, 64, 512}) linear(b, way, 10240, 5120, tokens);
    layer_projections(b, way);
  }
  for (std::int64_t tokens : {1, 64}) between_projections(b, tokens);
  rms_norm(b);
  for (std::int64_t context : {1024, 4096, 32768}) attention(b, context);
  b.give_back_arena();
  for (const char* gears : {"bf16", "q4q8", "q4"}) decode(b, gears);
  if (json_file != nullptr) {
    std::FILE* file = std::fopen(json_file, "w");
    if (file == nullptr) fail(ErrorCode::io, "{}: cannot write", json_file);
    fmt::print(file, "{}\n", b.results.dump(2));
    std::fclose(file);
  }
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  try {
    return tandem::run(argc == 3 && std::strcmp(argv[1], "--json") == 0 ? argv[2] : nullptr);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_bench: {}\n", error.what());
    return 1;
  }
}
