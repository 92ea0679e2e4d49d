#include "backends/cpu/cpu_backend.hpp"

#include <cstdlib>
#include <cstring>

#include "backends/cpu/checksums.hpp"
#include "backends/cpu/isa.hpp"
#include "backends/cpu/units.hpp"
#include "core/error.hpp"
#include "core/float_environment.hpp"
#include "core/host_memory.hpp"
#include "core/threads.hpp"

namespace tandem {
namespace {

using cpu::CompiledSet;
using cpu::KernelSet;

std::string usable_names() {
  std::string names;
  for (const CompiledSet& set : cpu::compiled_sets()) {
    if (set.usable) names += (names.empty() ? "" : ", ") + std::string(set.kernels->name);
  }
  return names;
}

const KernelSet* best_set() {
  for (const CompiledSet& set : cpu::compiled_sets()) {
    if (set.usable) return set.kernels;
  }
  return &cpu::kScalarKernels;
}

const KernelSet* named_set(std::string_view variant) {
  for (const CompiledSet& set : cpu::compiled_sets()) {
    if (set.usable && set.kernels->name == variant) return set.kernels;
  }
  fail(ErrorCode::unsupported, "cpu: no kernel variant '{}' on this machine; usable are {}", variant,
       usable_names());
}

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options) : threads_(options.threads) {
    force_variant(options.variant);
    info_ = {
        options.name,
        fmt::format("{}, {} thread{}", chosen_->name, threads_.count(), threads_.count() == 1 ? "" : "s"),
        DType::f32, true};
  }

  const BackendInfo& info() const override { return info_; }
  bool alive() noexcept override { return true; }

  Buffer allocate(std::size_t bytes) override { return allocate_host(info_.name, bytes); }
  std::uint64_t available_bytes() const override { return available_host_bytes(); }

  ResidentTensor load(const HostTensor& weight) override { return {weight.view, weight.owner, 0}; }
  ResidentTensor generate(const RandomTensor& weight) override {
    constexpr std::int64_t kGrain = 1 << 14;
    const FloatEnvironment environment;
    const HostTensor made = make_host_tensor(info_.name, weight, [&](std::int64_t n, const auto& body) {
      threads_.parallel_for(n, kGrain, body);
    });
    return {made.view, made.owner, weight.bytes()};
  }

  std::string_view submit(const Op& op) override {
    const FloatEnvironment environment;
    validate(op, DType::f32);
    const cpu::Units units = cpu::units_of(op);
    std::visit(
        [&]<class Args>(const Args& args) {
          const cpu::Kernel<Args> kernel = std::get<cpu::Kernel<Args>>(chosen_->kernels);
          threads_.parallel_for(units.count, cpu::grain_of(units, threads_.count()),
                                [&](std::int64_t begin, std::int64_t end) { kernel(args, begin, end); });
        },
        op);
    return chosen_->name;
  }

  void upload(void* to, const void* from_host, std::size_t bytes) override {
    std::memcpy(to, from_host, bytes);
    traffic_.uploaded += bytes;
  }
  void download(void* to_host, const void* from, std::size_t bytes) override {
    std::memcpy(to_host, from, bytes);
    traffic_.downloaded += bytes;
  }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  std::unique_ptr<PendingChecksums> checksums(std::span<const ByteRange> ranges) override {
    return finished_checksums(cpu::checksums(ranges, chosen_->digest, threads_));
  }
  std::unique_ptr<Event> record() override { return finished_event(); }
  void synchronize() override {}
  Traffic traffic() const override { return traffic_; }

  std::vector<KernelInfo> kernels() const override {
    std::vector<KernelInfo> table;
    for (int kind = 0; kind < kOpKinds; ++kind) {
      for (const CompiledSet& set : cpu::compiled_sets()) {
        table.push_back({static_cast<OpKind>(kind), set.kernels->name, set.usable, set.kernels == chosen_});
      }
    }
    return table;
  }

  void force_variant(std::string_view variant) override {
    chosen_ = variant.empty() ? best_set() : named_set(variant);
  }

 private:
  Threads threads_;
  const KernelSet* chosen_ = nullptr;
  BackendInfo info_;
  Traffic traffic_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

}  // namespace tandem
