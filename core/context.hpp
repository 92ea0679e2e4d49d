#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend.hpp"

namespace tandem {

/// A backend that a program could have and has not, with the reason: {"cuda", "built without CUDA"}.
struct AbsentBackend {
  std::string name;
  std::string reason;
};

/// The backends of one program, made in main and handed down: nothing in the library is global. Sessions use
/// them by name and must not outlive it. Thread-safety: that of each backend.
class Context {
 public:
  explicit Context(std::vector<std::unique_ptr<Backend>> backends, std::vector<AbsentBackend> absent = {})
      : backends_(std::move(backends)), absent_(std::move(absent)) {}

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& backend : backends_) names.push_back(backend->info().name);
    return names;
  }

  Backend& backend(std::size_t index) const { return *backends_[index]; }
  std::size_t size() const { return backends_.size(); }
  /// For messages: whoever asks for one of these is told why it is not there.
  const std::vector<AbsentBackend>& absent() const { return absent_; }

 private:
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<AbsentBackend> absent_;
};

}  // namespace tandem
