#include "tests/graph/op_log.hpp"

#include "backends/cpu/cpu_backend.hpp"
#include "core/error.hpp"

namespace tandem {
namespace {

class LoggedBackend final : public Backend {
 public:
  LoggedBackend(const std::string& name, OpLog& log)
      : cpu_(make_cpu_backend({.name = name, .threads = 1, .variant = ""})), log_(log) {}

  const BackendInfo& info() const override { return cpu_->info(); }
  bool alive() noexcept override { return true; }
  Buffer allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  std::uint64_t available_bytes() const override { return cpu_->available_bytes(); }
  ResidentTensor load(const HostTensor& weight) override { return cpu_->load(weight); }
  std::string_view submit(const Op& op) override {
    add("operator", op.index());
    return cpu_->submit(op);
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    add("upload", bytes);
    cpu_->upload(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    add("download", bytes);
    cpu_->download(to, from, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    add("copy", bytes);
    cpu_->copy(to, from, bytes);
  }
  std::unique_ptr<Event> record() override { return finished_event(); }
  void synchronize() override { add("synchronize", 0); }
  std::vector<KernelInfo> kernels() const override { return cpu_->kernels(); }
  void force_variant(std::string_view variant) override { cpu_->force_variant(variant); }

 private:
  void add(const char* what, std::size_t number) {
    log_.add(fmt::format("{} {} {}", info().name, what, number));
  }

  std::unique_ptr<Backend> cpu_;
  OpLog& log_;
};

}  // namespace

void OpLog::add(std::string line) {
  if (left_ >= 0 && left_-- == 0) fail(ErrorCode::device_lost, "planted before {}", line);
  lines_.push_back(std::move(line));
}

Context logged_cpu_and_device(OpLog& log) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(std::make_unique<LoggedBackend>("cpu", log));
  backends.push_back(std::make_unique<LoggedBackend>("cuda:0", log));
  return Context(std::move(backends));
}

}  // namespace tandem
