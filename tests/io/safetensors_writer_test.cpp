#include "core/io/safetensors_writer.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/io/mapped_file.hpp"
#include "core/io/safetensors.hpp"
#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

using test::expect_error;
using test::TempDir;

/// Element i is base + i.
template <class T>
NewTensor counting(const std::string& name, Shape shape, T base) {
  const auto fill = [base](std::int64_t begin, std::int64_t end, void* to) {
    for (std::int64_t i = begin; i < end; ++i) static_cast<T*>(to)[i - begin] = base + static_cast<T>(i);
  };
  return {name, dtype_of<T>::value, shape, fill};
}

NewTensor bf16_counting(const std::string& name, Shape shape) {
  const auto fill = [](std::int64_t begin, std::int64_t end, void* to) {
    for (std::int64_t i = begin; i < end; ++i)
      static_cast<bf16*>(to)[i - begin].bits = static_cast<std::uint16_t>(i);
  };
  return {name, DType::bf16, shape, fill};
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TempDir folder;
  const auto path = folder.path() / "a.safetensors";
  write_safetensors(path, {bf16_counting("z", Shape{3, 1, 5}), counting<float>("b", Shape{2, 3}, 0.5f),
                           counting<std::int32_t>("c", Shape{4}, -2), counting<double>("d", Shape{}, 7)});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"b", "c", "d", "z"}));
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  const ConstTensor z = file.tensor("z").view, b = file.tensor("b").view, c = file.tensor("c").view;
  EXPECT_EQ(z.dtype, DType::bf16);
  EXPECT_EQ(z.shape, (Shape{3, 1, 5}));
  EXPECT_EQ(z.row<bf16>(0)[14].bits, 14);
  EXPECT_EQ(b.shape, (Shape{2, 3}));
  EXPECT_EQ(b.row<float>(1)[2], 5.5f);
  EXPECT_EQ(c.row<std::int32_t>(0)[0], -2);
  EXPECT_EQ(file.tensor("d").view.row<double>(0)[0], 7);
}

TEST(SafetensorsWriter, AlignsTheDataAndPutsLargeElementsFirst) {
  const TempDir folder;
  const auto path = folder.path() / "a.safetensors";
  // An odd number of bf16 before an f32 would leave that unaligned.
  write_safetensors(path, {bf16_counting("a", Shape{3}), counting<float>("b", Shape{2}, 0),
                           counting<float>("a2", Shape{1}, 0)});
  const std::string bytes = read_text_file(path, 1 << 16);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  EXPECT_EQ(header % 8, 0u);
  const auto json = nlohmann::json::parse(bytes.substr(8, header));
  EXPECT_EQ(json["a2"]["data_offsets"], nlohmann::json({0, 4}));
  EXPECT_EQ(json["b"]["data_offsets"], nlohmann::json({4, 12}));
  EXPECT_EQ(json["a"]["data_offsets"], nlohmann::json({12, 18}));
  EXPECT_EQ(bytes.size(), 8 + header + 18);
}

TEST(SafetensorsWriter, FillsLargeTensorsInParts) {
  const TempDir folder;
  const auto path = folder.path() / "a.safetensors";
  constexpr std::int64_t kElements = (std::int64_t{40} << 20) / 4 + 3;
  std::int64_t written = 0, calls = 0;
  write_safetensors(path, {counting<std::int32_t>("a", Shape{kElements}, 0)}, [&](std::int64_t bytes) {
    written += bytes;
    ++calls;
  });
  EXPECT_EQ(written, kElements * 4);
  EXPECT_EQ(calls, 3);
  const SafetensorsFile file(path);
  const auto* values = file.tensor("a").view.row<std::int32_t>(0);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < kElements; ++i) wrong += values[i] == i ? 0 : 1;
  EXPECT_EQ(wrong, 0);
}

TEST(SafetensorsWriter, RefusesWhatItCannotWrite) {
  const TempDir folder;
  const auto path = folder.path() / "a.safetensors";
  const auto write = [](const std::filesystem::path& to, const std::string& name) {
    return [=] {
      write_safetensors(to, {counting<float>("a", Shape{1}, 0), counting<float>(name, Shape{1}, 0)});
    };
  };
  expect_error(write(path, "a"), ErrorCode::invalid_argument, {"two tensors are called \"a\""});
  expect_error(write(folder.path() / "missing" / "a", "b"), ErrorCode::io, {"cannot create", "missing"});
  write(path, "b")();
  expect_error(write(path, "b"), ErrorCode::io, {"cannot create", "exists"});
}

}  // namespace
}  // namespace tandem
