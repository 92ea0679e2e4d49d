#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/text/tokenizer.hpp"

namespace tandem::text_test {

/// The folder that an environment variable of tests/meson.build names.
inline std::filesystem::path folder(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr)
    throw std::runtime_error(std::string(variable) + " is not set: run this through meson test");
  return value;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_file(path));
}

inline std::filesystem::path tiny_path() { return folder("TANDEM_MODELS") / "tiny" / "tokenizer.json"; }
inline std::filesystem::path oracle_folder() { return folder("TANDEM_TEST_DATA") / "oracle" / "tiny"; }

/// reference_cases.json holds what the Python package tokenizers gives; its first line says how it was asked.
inline nlohmann::json reference_cases() {
  return read_json(folder("TANDEM_TEST_DATA") / ".." / "text" / "reference_cases.json");
}

inline const Tokenizer& tiny() {
  static const Tokenizer tokenizer = Tokenizer::load(tiny_path());
  return tokenizer;
}

/// tiny's tokenizer.json with a merge patch (RFC 7396) applied.
inline std::string patched_tiny(const nlohmann::json& patch) {
  static const nlohmann::json original = read_json(tiny_path());
  nlohmann::json document = original;
  document.merge_patch(patch);
  return document.dump();
}

/// nlohmann's serializer refuses anything but UTF-8: a judge that shares no code with core/text.
inline bool is_utf8(const std::string& bytes) {
  try {
    return !nlohmann::json(bytes).dump().empty();
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

/// Expects `action` to throw an Error of this code, whose message is one line and has `part` in it.
inline void expect_error(ErrorCode code, std::string_view part, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error; expected " << name(code) << " with \"" << part << "\"";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(name(error.code()), name(code)) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks \"" << part << "\"";
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 500u);
  }
}

}  // namespace tandem::text_test
