#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "core/backend.hpp"

namespace tandem::cuda {

/// The one stream of a backend: everything on it happens in order. Not thread-safe.
class Stream {
 public:
  Stream(std::string who, int device);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  cudaStream_t handle() const { return stream_; }
  /// Makes the backend's device the current one of this thread.
  void activate() const;
  /// Returns when everything is done. Throws as check(), naming the last operator.
  void synchronize() const;
  /// Whether the device still answers (Backend::alive).
  bool alive() const noexcept;
  std::unique_ptr<Event> record() const;
  /// What was launched last: failures show up later than they happen.
  void launched(std::string_view op, std::string_view variant) { op_ = op, variant_ = variant; }
  /// "cuda:0 after linear (rows)".
  std::string where() const;

 private:
  std::string who_;
  int device_;
  cudaStream_t stream_ = nullptr;
  std::string_view op_, variant_;
};

}  // namespace tandem::cuda
