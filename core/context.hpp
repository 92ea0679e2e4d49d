#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend.hpp"

namespace tandem {

/// The backends of one program, made in main and handed down: nothing in the library is global. Sessions use
/// them by name and must not outlive it. Thread-safety: that of each backend.
class Context {
 public:
  explicit Context(std::vector<std::unique_ptr<Backend>> backends) : backends_(std::move(backends)) {}

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& backend : backends_) names.push_back(backend->info().name);
    return names;
  }

  Backend& backend(std::size_t index) const { return *backends_[index]; }
  std::size_t size() const { return backends_.size(); }

 private:
  std::vector<std::unique_ptr<Backend>> backends_;
};

}  // namespace tandem
