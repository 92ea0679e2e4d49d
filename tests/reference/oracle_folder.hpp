#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::test {

/// A folder with oracle.json and oracle.safetensors, under TANDEM_TEST_DATA/oracle. Reads the numbers only:
/// the library's own reader of safetensors is not what is tested here.
class OracleFolder {
 public:
  /// Throws std::runtime_error if the folder cannot be read.
  explicit OracleFolder(std::string_view folder);

  const nlohmann::json& facts() const { return facts_; }
  /// All elements of an F32 or F64 tensor. Throws if there is none of that name.
  std::vector<double> tensor(const std::string& name) const;

 private:
  nlohmann::json facts_;
  nlohmann::json header_;
  std::string data_;
};

}  // namespace tandem::test
