#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/io/safetensors.hpp"

namespace tandem::tools {

/// Elements of a host tensor of any type, as doubles, in order.
std::vector<double> to_doubles(const ConstTensor& tensor);
/// The same for raw elements of one type.
std::vector<double> to_doubles(std::span<const std::byte> bytes, DType type);

/// The tensors of an oracle folder.
class OracleValues {
 public:
  explicit OracleValues(const std::filesystem::path& folder) : file_(folder / "oracle.safetensors") {}

  bool contains(const std::string& name) const { return file_.contains(name); }
  std::vector<double> values(const std::string& name) const { return to_doubles(file_.tensor(name).view); }
  std::vector<std::int32_t> integers(const std::string& name) const;
  Shape shape(const std::string& name) const { return file_.shape(name); }

 private:
  SafetensorsFile file_;
};

}  // namespace tandem::tools
