#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "backends/cuda/kernels/common.cuh"

/// The sequences of a step as kernel parameters. A launch takes a group of them; a larger batch takes several
/// launches, and nothing has to be copied to the device first.
namespace tandem::cuda {

/// A recurrent state or a convolution's memory, before and after.
struct StateSegment {
  const float* in;
  float* out;
  std::int64_t first_row;
  std::int64_t rows;
};

inline constexpr int kSegmentsPerLaunch = 64;

struct SegmentGroup {
  std::array<StateSegment, kSegmentsPerLaunch> segments;
  int count;
};

/// Calls body(group) for groups that cover all segments in order; stops at the first failure.
template <class Segment, class Body>
cudaError_t for_each_group(std::span<const Segment> segments, const Body& body) {
  for (std::size_t begin = 0; begin < segments.size(); begin += kSegmentsPerLaunch) {
    SegmentGroup group{};
    group.count = static_cast<int>(std::min<std::size_t>(kSegmentsPerLaunch, segments.size() - begin));
    for (int i = 0; i < group.count; ++i) {
      const Segment& s = segments[begin + static_cast<std::size_t>(i)];
      group.segments[static_cast<std::size_t>(i)] = {static_cast<const float*>(s.state_in.data),
                                                     static_cast<float*>(s.state_out.data), s.range.first_row,
                                                     s.range.rows};
    }
    const cudaError_t status = body(group);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

}  // namespace tandem::cuda
