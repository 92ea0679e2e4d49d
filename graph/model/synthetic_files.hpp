#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "core/threads.hpp"
#include "graph/model/synthetic.hpp"

namespace tandem {

struct SyntheticFilesOptions {
  std::int64_t shard_bytes = std::int64_t{4} << 30;
  /// Told bytes done and in all, every few megabytes. May throw to end the writing.
  std::function<void(std::int64_t done, std::int64_t total)> progress;
};

/// Writes a synthetic model as a Hugging Face directory without a tokenizer. It appears whole or not at all
/// (core/io/new_directory.hpp), and no more than a few megabytes of it are in memory at a time. Returns the
/// bytes of its weights. Throws as NewDirectory and write_checkpoint; Error(io) before anything is written
/// when the file system has no room for it.
std::int64_t write_synthetic_model(const SyntheticSpec& spec, const std::filesystem::path& directory,
                                   Threads& threads, const SyntheticFilesOptions& options = {});

}  // namespace tandem
