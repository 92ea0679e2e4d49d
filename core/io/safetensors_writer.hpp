#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/shape.hpp"

namespace tandem {

/// A tensor that is to be written.
struct NewTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  /// Writes elements [begin, end) to `to`. Called for neighbouring parts of a few megabytes, in order, so
  /// that a tensor need not be in memory.
  std::function<void(std::int64_t begin, std::int64_t end, void* to)> fill;

  std::int64_t bytes() const { return storage_bytes(dtype, shape.elements()); }
};

/// Told the bytes of data that were written since it was called last. May throw to end the writing.
using WriteProgress = std::function<void(std::int64_t bytes)>;

/// Further text for `__metadata__`, beside the format.
using Metadata = std::map<std::string, std::string>;

/// Writes a new file in the safetensors format (safetensors.hpp) and waits until it is on the disk. The data
/// start at a multiple of 8; tensors of larger elements come first, then by name, so that each is aligned.
/// Throws Error(invalid_argument) for a name that comes twice, Error(io) when the file exists or the system
/// refuses, and what `fill` and `progress` throw; the file may be there in part then.
void write_safetensors(const std::filesystem::path& path, std::vector<NewTensor> tensors,
                       const WriteProgress& progress = {}, const Metadata& metadata = {});

}  // namespace tandem
