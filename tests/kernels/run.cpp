#include "tests/kernels/run.hpp"

#include <cstring>

namespace tandem::test {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

std::vector<std::byte> guarded(const Operand& operand) {
  const std::int64_t before = kGuardBytes + operand.offset() * operand.place_bytes();
  const auto bytes = static_cast<std::int64_t>(operand.memory().size());
  std::vector<std::byte> image = poison(static_cast<std::size_t>(aligned(before + bytes + kGuardBytes)));
  std::memcpy(image.data() + before, operand.memory().data(), operand.memory().size());
  return image;
}

Image run(Backend& backend, const Case& test, const SubmitOn& submit) {
  Image image;
  std::size_t total = 0;
  for (const Operand& operand : test.operands) {
    image.operands.push_back(guarded(operand));
    total += image.operands.back().size();
  }
  const Buffer buffer = backend.allocate(total);
  std::vector<void*> first;
  auto* at = static_cast<std::byte*>(buffer.data());
  for (std::size_t i = 0; i < test.operands.size(); ++i) {
    const std::vector<std::byte>& memory = image.operands[i];
    backend.upload(at, memory.data(), memory.size());
    first.push_back(at + kGuardBytes + test.operands[i].offset() * test.operands[i].place_bytes());
    at += memory.size();
  }
  test.with_op(Bound(test.operands, first),
               [&](const Op& op) { image.variants.emplace_back(submit(backend, op)); });
  at = static_cast<std::byte*>(buffer.data());
  for (std::vector<std::byte>& memory : image.operands) {
    backend.download(memory.data(), at, memory.size());
    at += memory.size();
  }
  backend.synchronize();
  return image;
}

}  // namespace tandem::test
