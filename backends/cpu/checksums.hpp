#pragma once

#include <span>
#include <vector>

#include "backends/cpu/kernels.hpp"
#include "core/checksum.hpp"
#include "core/threads.hpp"

namespace tandem::cpu {

/// Block checksums of ranges of host memory, by all threads at once. Throws Error(invalid_argument) as
/// validate().
std::vector<Checksum> checksums(std::span<const ByteRange> ranges, DigestKernel digest, Threads& threads);

}  // namespace tandem::cpu
