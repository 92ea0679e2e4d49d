#include "backends/cuda/cuda_backend.hpp"

#include <set>

#include "backends/cuda/device_memory.hpp"
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/status.hpp"
#include "backends/cuda/stream.hpp"
#include "backends/cuda/transfers.hpp"

namespace tandem {
namespace {

using cuda::check;
using cuda::Launch;
using cuda::Variant;

/// Tables of all operators, in the order of Op.
template <class OpVariant>
struct TablesOf;
template <class... Args>
struct TablesOf<std::variant<Args...>> {
  using Type = std::tuple<std::vector<Variant<Args>>...>;
  static Type make() { return {cuda::variants<Args>()...}; }
};
using Tables = TablesOf<Op>::Type;

/// Compute capability 9.0 has the launches that begin before the kernel in front of them has ended.
constexpr int kProgrammaticMajor = 9;

cudaDeviceProp properties_of(int device) {
  const CudaDevices devices = cuda_devices();
  if (device < 0 || device >= devices.count) {
    fail(ErrorCode::unsupported, "cuda:{}: {}", device,
         devices.count == 0 ? devices.reason : fmt::format("there are {} devices here", devices.count));
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cuda");
  return properties;
}

BackendInfo info_of(int device, const cudaDeviceProp& properties) {
  return {fmt::format("cuda:{}", device),
          fmt::format("{}, compute capability {}.{}, {}", properties.name, properties.major, properties.minor,
                      human_bytes(properties.totalGlobalMem)),
          DType::f32, false};
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options) : CudaBackend(options, properties_of(options.device)) {}

  const BackendInfo& info() const override { return info_; }
  bool alive() noexcept override { return stream_.alive(); }

  Buffer allocate(std::size_t bytes) override { return memory_.allocate(bytes); }
  std::uint64_t available_bytes() const override { return memory_.available(); }

  ResidentTensor load(const HostTensor& weight) override {
    return make_resident(weight.view.dtype, weight.view.shape, [&](void* to) {
      if (!weight.view.contiguous())
        fail(ErrorCode::unsupported, "{}: a weight must be contiguous", info_.name);
      transfers_.load(to, weight.view.data, static_cast<std::size_t>(weight.view.bytes()));
    });
  }
  ResidentTensor generate(const RandomTensor& weight) override {
    return make_resident(weight.dtype, weight.shape, [&](void* to) {
      check(cuda::generate(weight, to, launch_), info_.name + ": generate");
    });
  }

  std::string_view submit(const Op& op) override {
    validate(op, DType::f32);
    stream_.activate();
    return std::visit([&](const auto& args) { return submit_args(args, name(kind_of(op))); }, op);
  }

  void upload(void* to, const void* from_host, std::size_t bytes) override {
    stream_.activate();
    launch_.memory_written();
    transfers_.upload(to, from_host, bytes);
  }
  void download(void* to_host, const void* from, std::size_t bytes) override {
    stream_.activate();
    transfers_.download(to_host, from, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    stream_.activate();
    launch_.memory_written();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_.handle()), stream_.where());
  }

  Buffer allocate_staging(std::size_t bytes) override {
    stream_.activate();
    return cuda::allocate_pinned(info_.name, bytes);
  }
  void send(void* to, const void* from_staging, std::size_t bytes) override {
    stream_.activate();
    launch_.memory_written();
    transfers_.send(to, from_staging, bytes);
  }
  void receive(void* to_staging, const void* from, std::size_t bytes) override {
    stream_.activate();
    transfers_.receive(to_staging, from, bytes);
  }
  std::unique_ptr<PendingChecksums> checksums(std::span<const ByteRange> ranges) override {
    validate(ranges);
    if (ranges.empty()) return finished_checksums({});
    stream_.activate();
    const Checksum* results = nullptr;
    check(cuda::checksums(ranges, launch_, &results), info_.name + ": checksums");
    stream_.launched("checksums", "pieces");
    return transfers_.fetch(results, ranges.size());
  }
  std::unique_ptr<Event> record() override {
    stream_.activate();
    return stream_.record();
  }
  void synchronize() override { stream_.synchronize(); }
  Traffic traffic() const override { return transfers_.traffic(); }

  std::vector<KernelInfo> kernels() const override {
    std::vector<KernelInfo> rows;
    int kind = 0;
    const auto add = [&](const auto& table) {
      const auto& usual = usual_variant(table);
      for (const auto& variant : table) {
        rows.push_back({static_cast<OpKind>(kind), variant.name, true, variant.name == usual.name});
      }
      ++kind;
    };
    std::apply([&](const auto&... tables) { (add(tables), ...); }, tables_);
    return rows;
  }

  void force_variant(std::string_view variant) override {
    if (!variant.empty()) require_known(variant);
    forced_ = variant;
  }

 private:
  CudaBackend(const CudaOptions& options, const cudaDeviceProp& properties)
      : info_(info_of(options.device, properties)),
        memory_(info_.name, options.device, options.memory_limit),
        stream_(info_.name, options.device),
        transfers_(info_.name, stream_, memory_),
        launch_{stream_.handle(), properties.major >= kProgrammaticMajor, properties.multiProcessorCount,
                &transfers_},
        tables_(TablesOf<Op>::make()) {
    force_variant(options.variant);
  }

  template <class Fill>
  ResidentTensor make_resident(DType dtype, const Shape& shape, const Fill& fill) {
    stream_.activate();
    const std::int64_t elements = checked_elements(shape, "weight");
    checked_mul(elements, static_cast<std::int64_t>(size_of(dtype)), "weight");
    const std::int64_t bytes = storage_bytes(dtype, elements);
    const auto memory = std::make_shared<Buffer>(memory_.allocate(static_cast<std::size_t>(bytes)));
    launch_.memory_written();
    fill(memory->data());
    return {ConstTensor(memory->data(), dtype, shape), memory, bytes};
  }

  template <class Args>
  std::string_view submit_args(const Args& args, std::string_view op) {
    const Variant<Args>& variant = choose(std::get<std::vector<Variant<Args>>>(tables_), args, op);
    check(variant.launch(args, launch_), fmt::format("{}: {} ({})", info_.name, op, variant.name));
    stream_.launched(op, variant.name);
    return variant.name;
  }

  template <class Args>
  const Variant<Args>& choose(const std::vector<Variant<Args>>& table, const Args& args,
                              std::string_view op) const {
    for (const Variant<Args>& variant : table) {
      if (forced_.empty() ? variant.suits == nullptr || variant.suits(args) : variant.name == forced_) {
        return variant;
      }
    }
    fail(ErrorCode::unsupported, "{}: {} has no kernel variant '{}'", info_.name, op, forced_);
  }

  /// What an operator over one token takes, the case that decoding is made of: the last row suits everything.
  template <class Args>
  static const Variant<Args>& usual_variant(const std::vector<Variant<Args>>& table) {
    return table.back();
  }

  void require_known(std::string_view variant) const {
    std::set<std::string_view> names;
    for (const KernelInfo& kernel : kernels()) names.insert(kernel.variant);
    if (names.contains(variant)) return;
    fail(ErrorCode::unsupported, "{}: no kernel variant '{}'; there are {}", info_.name, variant,
         fmt::join(names, ", "));
  }

  BackendInfo info_;
  cuda::DeviceMemory memory_;
  cuda::Stream stream_;
  cuda::Transfers transfers_;
  Launch launch_;
  Tables tables_;
  std::string forced_;
};

}  // namespace

CudaDevices cuda_devices() {
  int count = 0, driver = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return {count, ""};
  static_cast<void>(cudaGetLastError());
  // Without a driver CUDA complains of its version.
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
    return {0, "no NVIDIA driver on this machine"};
  return {0, fmt::format("no CUDA device: {}",
                         status == cudaSuccess ? "none found" : cudaGetErrorString(status))};
}

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace tandem
