#include "tests/reference/oracle_folder.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace tandem::test {
namespace {

std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

template <class T>
std::vector<double> widened(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return {values.begin(), values.end()};
}

}  // namespace

OracleFolder::OracleFolder(std::string_view folder) {
  const char* base = std::getenv("TANDEM_TEST_DATA");
  if (base == nullptr) throw std::runtime_error("TANDEM_TEST_DATA is not set: run through meson test");
  const std::filesystem::path path = std::filesystem::path(base) / "oracle" / folder;
  facts_ = nlohmann::json::parse(contents(path / "oracle.json"));
  data_ = contents(path / "oracle.safetensors");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, data_.data(), sizeof(header_bytes));
  header_ = nlohmann::json::parse(data_.substr(sizeof(header_bytes), header_bytes));
  data_.erase(0, sizeof(header_bytes) + header_bytes);
}

std::vector<double> OracleFolder::tensor(const std::string& name) const {
  const nlohmann::json& entry = header_.at(name);
  const auto& offsets = entry.at("data_offsets");
  const auto begin = offsets.at(0).get<std::size_t>();
  const auto bytes = std::string_view(data_).substr(begin, offsets.at(1).get<std::size_t>() - begin);
  return entry.at("dtype") == "F64" ? widened<double>(bytes) : widened<float>(bytes);
}

}  // namespace tandem::test
