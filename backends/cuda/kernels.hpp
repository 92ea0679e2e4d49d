#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/checksum.hpp"
#include "core/ops.hpp"
#include "core/random_tensor.hpp"

/// The kernel table of the CUDA backend. Included by both compilers: nothing here may reach core/error.hpp,
/// whose formatting library nvcc cannot compile. Launchers therefore return CUDA's status.
namespace tandem::cuda {

/// Device memory that goes with an operator beside its operands, kept by the backend.
class DeviceArguments {
 public:
  virtual ~DeviceArguments() = default;
  /// Copies host bytes to the device, in order with the kernels; valid for the kernels launched until the
  /// next push.
  virtual cudaError_t push(const void* host, std::size_t bytes, const void** device) = 0;
  /// Scratch of at least so many bytes; kernels of one stream may use the same.
  virtual cudaError_t scratch(std::size_t bytes, void** device) = 0;
};

/// Activations that lie in the scratch memory as projections with 4-bit weights read them
/// (kernels/q4_activations.cuh): which. Neighbouring projections of a layer have the same.
struct LaidOut {
  const void* x = nullptr;
  std::int64_t rows = 0, row_stride = 0, columns = 0;
  Activations activations = Activations::real;

  bool operator==(const LaidOut&) const = default;
};

/// Where a kernel is launched.
struct Launch {
  cudaStream_t stream = nullptr;
  /// The device can start a kernel while the one before is finishing (compute capability 9.0).
  bool programmatic = false;
  int multiprocessors = 1;
  DeviceArguments* arguments = nullptr;
  /// Whether what was enqueued last may have written a sequence's state. If not, a kernel may read states
  /// before it waits: everything older is done by then.
  mutable bool state_written = true;
  /// Nothing, or what the last kernel has left as it was: every launch forgets it, and so does a copy.
  mutable LaidOut laid_out{};

  /// To be called when memory is written other than by a kernel.
  void memory_written() const { state_written = true, laid_out = {}; }
};

/// Enqueues the kernels of an operator that was validated.
template <class Args>
using Kernel = cudaError_t (*)(const Args&, const Launch&);

/// One row of the table. `suits` tells for which operators the row is worth taking; any row can run any
/// operator of its kind.
template <class Args>
struct Variant {
  std::string_view name;
  bool (*suits)(const Args&);
  Kernel<Args> launch;
};

/// The rows of an operator, best first; the last one suits everything.
template <class Args>
std::vector<Variant<Args>> variants();

/// Enqueues the block checksums of ranges in device memory; `results` is where they will be on the device, in
/// scratch memory. REQUIRES: validate(ranges), at least one.
cudaError_t checksums(std::span<const ByteRange> ranges, const Launch& where, const Checksum** results);

/// Writes all elements of a random tensor.
cudaError_t generate(const RandomTensor& tensor, void* to, const Launch& where);

}  // namespace tandem::cuda
