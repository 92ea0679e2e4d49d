#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "backends/cpu/cpu_backend.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "core/threads.hpp"

/// Projections on the CPU: mat-vecs as a share of what this machine can read, measured in the same run, and
/// prompts in multiply-adds. Caches are cold: every iteration takes the next of several matrices that
/// together are far larger than any cache.
///   build/tests/bench/cpu_bench        threads: TANDEM_BENCH_THREADS (default 2)
namespace tandem {
namespace {

constexpr std::int64_t kColumns = 5120;
constexpr std::int64_t kPoolBytes = std::int64_t{1} << 31;

/// A weight of kColumns, and rows of x at a time.
struct Size {
  const char* name;
  std::int64_t rows, tokens;
};

constexpr Size kMatVec = {"mat_vec", 10240, 1}, kPrompt = {"prompt", 1024, 64};

int thread_count() {
  const char* asked = std::getenv("TANDEM_BENCH_THREADS");
  return asked != nullptr ? std::atoi(asked) : 2;
}

/// 2 GiB of small finite numbers, whichever type they are read as.
const std::vector<std::uint16_t>& pool() {
  static const std::vector<std::uint16_t> memory = [] {
    std::vector<std::uint16_t> bits(kPoolBytes / 2);
    Threads(thread_count())
        .parallel_for(std::ssize(bits), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            bits[static_cast<std::size_t>(i)] =
                static_cast<std::uint16_t>(0x3c00 + (mix64(static_cast<std::uint64_t>(i)) & 0x80ff));
        });
    return bits;
  }();
  return memory;
}

double read_gigabytes_per_second = 0;

/// Sums words in 32 chains with the widest registers there are, so that memory is all that it waits for.
[[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]] std::uint64_t sum_of(
    const std::uint64_t* first, std::int64_t count) {
  constexpr int kChains = 32;
  std::uint64_t chains[kChains] = {};
  for (std::int64_t i = 0; i + kChains <= count; i += kChains) {
    for (int c = 0; c < kChains; ++c) chains[c] += first[i + c];
  }
  return std::accumulate(chains, chains + kChains, std::uint64_t{0});
}

/// Reads one matrix's worth of memory on all threads.
void read_bandwidth(benchmark::State& state) {
  Threads threads(thread_count());
  const auto* words = reinterpret_cast<const std::uint64_t*>(pool().data());
  const std::int64_t count = kMatVec.rows * kColumns * 4 / 8, regions = kPoolBytes / (count * 8);
  std::vector<double> rates;
  std::int64_t region = 0;
  for (auto _ : state) {
    const std::uint64_t* first = words + (region++ % regions) * count;
    const auto start = std::chrono::steady_clock::now();
    threads.parallel_for(count, 1 << 18, [&](std::int64_t begin, std::int64_t end) {
      benchmark::DoNotOptimize(sum_of(first + begin, end - begin));
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    state.SetIterationTime(seconds);
    rates.push_back(static_cast<double>(count) * 8e-9 / seconds);
  }
  std::nth_element(rates.begin(), rates.begin() + std::ssize(rates) / 2, rates.end());
  read_gigabytes_per_second = rates[rates.size() / 2];
  state.counters["GB/s"] = read_gigabytes_per_second;
}
BENCHMARK(read_bandwidth)->Iterations(40)->UseManualTime()->Unit(benchmark::kMillisecond);

/// How a projection takes weights and activations.
struct Gear {
  const char* name;
  DType weight;
  Activations activations = Activations::real;
};

constexpr Gear kGears[] = {
    {"f32", DType::f32}, {"bf16", DType::bf16}, {"q4", DType::q4}, {"q4q8", DType::q4, Activations::q8}};

void projection(benchmark::State& state, const Size& size, const Gear& gear, const std::string& variant) {
  const auto backend = make_cpu_backend({.name = "cpu", .threads = thread_count(), .variant = variant});
  const std::int64_t elements = size.rows * kColumns, bytes = storage_bytes(gear.weight, elements),
                     matrices = kPoolBytes / bytes;
  std::vector<float> x(static_cast<std::size_t>(size.tokens * kColumns)),
      y(static_cast<std::size_t>(size.tokens * size.rows));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(CounterRandom("x", 1).normal(i));
  std::vector<double> seconds;
  std::int64_t matrix = 0;
  for (auto _ : state) {
    const char* weight = reinterpret_cast<const char*>(pool().data()) + (matrix++ % matrices) * bytes;
    const Linear op{{x.data(), DType::f32, Shape{size.tokens, kColumns}},
                    {weight, gear.weight, Shape{size.rows, kColumns}},
                    {},
                    {y.data(), DType::f32, Shape{size.tokens, size.rows}},
                    gear.activations};
    const auto start = std::chrono::steady_clock::now();
    backend->submit(op);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    state.SetIterationTime(seconds.back());
  }
  std::nth_element(seconds.begin(), seconds.begin() + std::ssize(seconds) / 2, seconds.end());
  const double median = seconds[seconds.size() / 2];
  if (size.tokens == 1) {
    state.counters["GB/s"] = static_cast<double>(bytes) * 1e-9 / median;
    state.counters["share_of_read"] = static_cast<double>(bytes) * 1e-9 / median / read_gigabytes_per_second;
  } else {
    state.counters["multiply_adds/s"] = static_cast<double>(elements * size.tokens) / median;
  }
}

/// Without hardware for it, an fma is a call: only what needs few of them is worth measuring.
bool measured(const KernelInfo& kernel, const Gear& gear) {
  if (kernel.op != OpKind::linear || !kernel.usable || kernel.variant == "scalar") return false;
  return kernel.variant != "baseline" || gear.activations == Activations::q8;
}

void register_projections() {
  const auto backend = make_cpu_backend({});
  for (const Size* size : {&kMatVec, &kPrompt}) {
    for (const KernelInfo& kernel : backend->kernels()) {
      for (const Gear& gear : kGears) {
        if (!measured(kernel, gear)) continue;
        const std::string name =
            fmt::format("{}/{}x{}/{}/{}", size->name, size->rows, kColumns, gear.name, kernel.variant);
        benchmark::RegisterBenchmark(name.c_str(), projection, *size, gear, std::string(kernel.variant))
            ->Iterations(40)
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  tandem::register_projections();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
