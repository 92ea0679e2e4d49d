#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace tandem::test {

/// A fresh directory, removed with all that is in it at the end of its scope.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tandem-io-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary directory");
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, std::string_view content) const {
    const auto path = path_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  std::filesystem::path path_;
};

/// The folder that an environment variable names; meson sets them (tests/meson.build).
inline std::filesystem::path data_folder(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr) throw std::runtime_error(std::string(variable) + " is not set");
  return value;
}

/// A number as eight little-endian bytes.
inline std::string le64(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// The bytes of a safetensors file with this header text and data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return le64(header.size()) + std::string(header) + std::string(data);
}

/// Expects an Error of this code, on one line, whose message has all of `parts`.
template <class Action>
void expect_error(Action action, ErrorCode code, std::initializer_list<const char*> parts) {
  try {
    action();
    ADD_FAILURE() << "expected an Error " << name(code);
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(name(error.code()), name(code)) << message;
    for (const char* part : parts) EXPECT_THAT(message, testing::HasSubstr(part));
    EXPECT_EQ(message.find('\n'), message.npos) << "more than one line: " << message;
  }
}

}  // namespace tandem::test
