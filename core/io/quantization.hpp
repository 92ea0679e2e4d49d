#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

/// How a model directory says that it has weights in raw-q4 (core/q4.hpp): "quantization_config" in
/// config.json, and the same in `__metadata__` of each file of weights. A matrix X in 4 bits is the tensor
/// X.q4, U8 [bytes], exactly as it lies in memory.
namespace tandem {

inline constexpr std::string_view kQ4Suffix = ".q4";

/// The gears that a directory was written in, as text; nothing when config.json has no quantization_config.
/// Throws Error(unsupported) for another method or version, by name; Error(invalid_argument) for values of
/// the wrong type, and what read_json_file throws.
std::optional<std::string> load_quantization(const std::filesystem::path& directory);

/// Adds it to config.json of a directory that is being written. A model whose head is its own (`tied` is
/// false) says so there, whatever its config.json said before. Throws as read_json_file, and Error(io).
void write_quantization(const std::filesystem::path& directory, std::string_view gears, bool tied);

/// For `__metadata__`.
std::map<std::string, std::string> quantization_metadata();
/// Throws Error(unsupported) unless a file's metadata are those; `where` names the file.
void require_quantization(const std::map<std::string, std::string>& metadata, std::string_view where);

}  // namespace tandem
