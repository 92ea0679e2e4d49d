#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend.hpp"
#include "core/owned_mutex.hpp"

namespace tandem {

/// A backend that a program could have and has not, with the reason: {"cuda", "built without CUDA"}.
struct AbsentBackend {
  std::string name;
  std::string reason;
};

/// The backends of one program, made in main and handed down: nothing in the library is global. Sessions use
/// them by name and must not outlive it. Thread-safety: that of each backend; sessions hold mutex() while
/// they use one, so that several sessions over one context may be driven from several threads.
class Context {
 public:
  explicit Context(std::vector<std::unique_ptr<Backend>> backends, std::vector<AbsentBackend> absent = {})
      : backends_(std::move(backends)), absent_(std::move(absent)) {
    for (std::size_t i = 0; i < backends_.size(); ++i) mutexes_.push_back(std::make_unique<OwnedMutex>());
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& backend : backends_) names.push_back(backend->info().name);
    return names;
  }

  Backend& backend(std::size_t index) const { return *backends_[index]; }
  std::size_t size() const { return backends_.size(); }
  /// Whoever uses a backend while sessions do holds this. Of several, lower indices come first.
  OwnedMutex& mutex(std::size_t index) const { return *mutexes_[index]; }
  /// For messages: whoever asks for one of these is told why it is not there.
  const std::vector<AbsentBackend>& absent() const { return absent_; }

 private:
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<OwnedMutex>> mutexes_;  ///< by backend
  std::vector<AbsentBackend> absent_;
};

}  // namespace tandem
