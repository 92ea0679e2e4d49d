#include "backends/reference/reference_backend.hpp"

#include <cstring>
#include <variant>

#include "backends/reference/kernels.hpp"
#include "core/error.hpp"
#include "core/host_memory.hpp"

namespace tandem {
namespace {

constexpr std::string_view kVariant = "float64";

class ReferenceBackend final : public Backend {
 public:
  const BackendInfo& info() const override { return info_; }
  bool alive() noexcept override { return true; }

  Buffer allocate(std::size_t bytes) override { return allocate_host("reference", bytes); }

  std::uint64_t available_bytes() const override { return available_host_bytes(); }

  ResidentTensor load(const HostTensor& weight) override { return {weight.view, weight.owner, 0}; }

  std::string_view submit(const Op& op) override {
    validate(op, info_.real);
    std::visit([](const auto& arguments) { reference::run(arguments); }, op);
    return kVariant;
  }

  void upload(void* to, const void* from_host, std::size_t bytes) override { copy(to, from_host, bytes); }
  void download(void* to_host, const void* from, std::size_t bytes) override { copy(to_host, from, bytes); }

  void copy(void* to, const void* from, std::size_t bytes) override {
    // An empty copy may come with null pointers, which memcpy must not see.
    if (bytes != 0) std::memcpy(to, from, bytes);
  }

  std::unique_ptr<Event> record() override { return finished_event(); }
  void synchronize() override {}

  std::vector<KernelInfo> kernels() const override {
    std::vector<KernelInfo> rows;
    for (int kind = 0; kind < kOpKinds; ++kind) {
      rows.push_back({static_cast<OpKind>(kind), kVariant, /*usable=*/true, /*chosen=*/true});
    }
    return rows;
  }

  void force_variant(std::string_view variant) override {
    if (variant.empty() || variant == kVariant) return;
    fail(ErrorCode::unsupported, "reference: no kernel variant '{}'; the only one is '{}'", variant,
         kVariant);
  }

 private:
  const BackendInfo info_{.name = "reference",
                          .description = "float64, 1 thread: slow and plain",
                          .real = DType::f64,
                          .host_memory = true};
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace tandem
