#include "core/faults.hpp"

#include <algorithm>
#include <csignal>

#include "core/error.hpp"

namespace tandem {
namespace {

bool is_of_a_backend(FaultKind kind) { return kind != FaultKind::miss && kind != FaultKind::kill; }

}  // namespace

Faults::Faults(std::vector<Fault> faults) {
  for (Fault& fault : faults) arm(std::move(fault));
}

void Faults::arm(Fault fault) {
  const std::lock_guard lock(mutex_);
  const std::int64_t number = fault.number;
  const bool begun = fault.token < 0;
  armed_.push_back({std::move(fault), number, begun});
}

void Faults::arm(std::string_view text) {
  for (Fault& fault : parse_faults(text)) arm(std::move(fault));
}

void Faults::disarm() {
  const std::lock_guard lock(mutex_);
  armed_.clear();
}

bool Faults::counts(Armed& armed, std::string_view backend, FaultCall call) const {
  const Fault& fault = armed.fault;
  if (!is_of_a_backend(fault.kind) || !armed.begun) return false;
  if (!fault.backend.empty() && fault.backend != backend) return false;
  if (fault.call != FaultCall::any && fault.call != call) return false;
  return --armed.left == 0;
}

Faults::Due Faults::call(std::string_view backend, FaultCall call, std::string_view what) {
  const std::lock_guard lock(mutex_);
  ++calls_[{std::string(backend), call}];
  Due due;
  std::optional<Fault> failure;
  std::erase_if(armed_, [&](Armed& armed) {
    if (!counts(armed, backend, call)) return false;
    const Fault& fault = armed.fault;
    if (fault.kind == FaultKind::flip) {
      due.flip = fault;
    } else if (fault.kind == FaultKind::delay) {
      due.delay = fault;
    } else if (fault.kind == FaultKind::lost) {
      lost_.try_emplace(std::string(backend), to_string(fault));
    } else {
      failure = fault;
    }
    return true;
  });
  if (const auto found = lost_.find(backend); found != lost_.end()) {
    fail(ErrorCode::device_lost, "{}: {}: the device does not answer (injected: {})", backend, what,
         found->second);
  }
  if (failure) {
    const ErrorCode code =
        failure->kind == FaultKind::alloc ? ErrorCode::out_of_memory : ErrorCode::device_lost;
    fail(code, "{}: {} failed (injected: {})", backend, what, to_string(*failure));
  }
  return due;
}

void Faults::reach(std::int64_t first, std::int64_t end) {
  const std::lock_guard lock(mutex_);
  for (Armed& armed : armed_) {
    if (armed.fault.token >= first && armed.fault.token < end) armed.begun = true;
  }
}

std::vector<int> Faults::misses(std::int64_t first, std::int64_t end) {
  const std::lock_guard lock(mutex_);
  std::vector<int> layers;
  std::erase_if(armed_, [&](const Armed& armed) {
    const Fault& fault = armed.fault;
    const bool due = fault.kind == FaultKind::miss && fault.token >= first && fault.token < end;
    if (due) layers.push_back(fault.layer);
    return due;
  });
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

void Faults::before_rename() const {
  const std::lock_guard lock(mutex_);
  const auto kills = [](const Armed& armed) { return armed.fault.kind == FaultKind::kill; };
  if (std::any_of(armed_.begin(), armed_.end(), kills)) static_cast<void>(std::raise(SIGKILL));
}

bool Faults::lost(std::string_view backend) const {
  const std::lock_guard lock(mutex_);
  return lost_.contains(backend);
}

std::int64_t Faults::calls(std::string_view backend, FaultCall call) const {
  const std::lock_guard lock(mutex_);
  std::int64_t count = 0;
  for (const auto& [key, calls] : calls_) {
    if (key.first == backend && (call == FaultCall::any || key.second == call)) count += calls;
  }
  return count;
}

std::size_t Faults::armed() const {
  const std::lock_guard lock(mutex_);
  return armed_.size();
}

}  // namespace tandem
