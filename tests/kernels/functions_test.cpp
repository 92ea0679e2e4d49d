#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "core/q4.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/share.hpp"

/// exp, sigmoid, silu and softplus as the vectorised kernels have them, against the definition's, over the
/// floats, and the widening of a q4 block's scale over all of binary16.
namespace tandem::test {
namespace {

constexpr std::int64_t kRows = 64, kColumns = 4096, kChunk = kRows * kColumns;

/// Calls body with chunks of floats: every `step`-th between 0 and +-105, where the functions are not yet
/// constant, and every 64 * step-th of the rest, NaNs included.
void for_each_chunk(std::uint32_t step, const std::function<void(const std::vector<float>&)>& body) {
  constexpr std::uint32_t k105 = 0x42d20000, kEnd = 0x80000000;
  std::vector<float> chunk;
  for (std::uint64_t bits = 0; bits < kEnd; bits += bits < k105 ? step : 64 * step) {
    for (std::uint32_t sign : {0u, 0x80000000u})
      chunk.push_back(num::float_of(static_cast<std::uint32_t>(bits) | sign));
    if (static_cast<std::int64_t>(chunk.size()) == kChunk) body(chunk), chunk.clear();
  }
  chunk.resize(kChunk, 0.0f);
  body(chunk);
}

/// The functions as a backend's operators compute them, one chunk at a time.
class Functions {
 public:
  explicit Functions(std::string variant) : backend_(make_cpu(0, variant)), variant_(std::move(variant)) {}

  const std::string& variant() const { return variant_; }

  std::vector<float> silu(std::vector<float> x) const {
    std::vector<float> up(kChunk, 1.0f), y(kChunk);
    submit(SiluMul{rows(x), rows(up), rows(y)});
    return y;
  }
  std::vector<float> sigmoid(std::vector<float> gate) const {
    std::vector<float> x(kChunk, 1.0f), y(kChunk);
    submit(SigmoidGate{heads(x), heads(gate), kColumns, heads(y)});
    return y;
  }
  /// -softplus(x): with A_log = 0 and dt_bias = -0 there is nothing else in g.
  std::vector<float> softplus(std::vector<float> a) const {
    std::vector<float> a_log(kColumns, 0.0f), dt_bias(kColumns, -0.0f), beta(kChunk), g(kChunk);
    submit(GdnGates{rows(a), rows(a), one_row(a_log), one_row(dt_bias), rows(beta), rows(g)});
    return g;
  }
  /// -exp(x) * softplus(1).
  std::vector<float> exp(std::vector<float> a_log) const {
    std::vector<float> a(kChunk, 1.0f), dt_bias(kChunk, -0.0f), beta(kChunk), g(kChunk);
    const auto row = [](std::vector<float>& v) { return Tensor(v.data(), DType::f32, Shape{1, kChunk}); };
    submit(GdnGates{row(a), row(a), one_row(a_log), one_row(dt_bias), row(beta), row(g)});
    return g;
  }
  /// `factor` times the scale of row i's block i mod 32: the other blocks are zero, and so is all of x but
  /// the first of a block.
  std::vector<float> scaled(const std::vector<f16>& scales, Activations activations, float factor) const {
    constexpr std::int64_t kColumns = num::kLanes * kQ4Block;
    const auto rows = static_cast<std::int64_t>(scales.size());
    std::vector<std::uint8_t> weight(static_cast<std::size_t>(storage_bytes(DType::q4, rows * kColumns)), 0);
    std::memset(weight.data(), 0x88, static_cast<std::size_t>(rows * kColumns / 2));
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t block = row * num::kLanes + row % num::kLanes;
      weight[static_cast<std::size_t>(block * (kQ4Block / 2))] = 0x89;
      std::memcpy(weight.data() + rows * kColumns / 2 + block * 2, &scales[static_cast<std::size_t>(row)], 2);
    }
    std::vector<float> x(kColumns, 0.0f), y(scales.size());
    for (std::size_t i = 0; i < x.size(); i += kQ4Block) x[i] = factor;
    submit(Linear{{x.data(), DType::f32, Shape{1, kColumns}},
                  {weight.data(), DType::q4, Shape{rows, kColumns}},
                  {},
                  {y.data(), DType::f32, Shape{1, rows}},
                  activations});
    return y;
  }

 private:
  static Tensor rows(std::vector<float>& v) { return {v.data(), DType::f32, Shape{kRows, kColumns}}; }
  static Tensor heads(std::vector<float>& v) { return {v.data(), DType::f32, Shape{kRows, 1, kColumns}}; }
  static Tensor one_row(std::vector<float>& v) {
    return {v.data(), DType::f32, Shape{static_cast<std::int64_t>(v.size())}};
  }
  void submit(const Op& op) const { ASSERT_EQ(backend_->submit(op), variant_); }

  std::unique_ptr<Backend> backend_;
  std::string variant_;
};

std::vector<Functions> vectorised() {
  std::vector<Functions> all;
  for (const KernelInfo& kernel : make_definition()->kernels()) {
    if (kernel.op == OpKind::silu_mul && kernel.usable && kernel.variant != "scalar") {
      all.emplace_back(std::string(kernel.variant));
    }
  }
  return all;
}

std::string difference(const std::vector<float>& x, const std::vector<float>& expected,
                       const std::vector<float>& found) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (num::bits_of(expected[i]) == num::bits_of(found[i])) continue;
    if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
    return fmt::format("at {:a}: expected {:08x}, found {:08x}", x[i], num::bits_of(expected[i]),
                       num::bits_of(found[i]));
  }
  return "";
}

using Function = std::vector<float> (Functions::*)(std::vector<float>) const;

void expect_the_same_bits(Function function, std::uint32_t step) {
  const Functions definition("scalar");
  const std::vector<Functions> others = vectorised();
  for_each_chunk(step * static_cast<std::uint32_t>(one_in()), [&](const std::vector<float>& x) {
    const std::vector<float> expected = (definition.*function)(x);
    for (const Functions& other : others) {
      ASSERT_EQ(difference(x, expected, (other.*function)(x)), "") << other.variant();
    }
  });
}

TEST(VectorisedFunctions, Silu) { expect_the_same_bits(&Functions::silu, 64); }
TEST(VectorisedFunctions, Sigmoid) { expect_the_same_bits(&Functions::sigmoid, 64); }
TEST(VectorisedFunctions, Softplus) { expect_the_same_bits(&Functions::softplus, 64); }

/// With x = 127, the scale of 8-bit activations is 1 and the sum of the block 127.
TEST(VectorisedFunctions, WideningOfEveryScale) {
  constexpr std::uint32_t kPatterns = 1 << 16, kRowsAtOnce = 1 << 12;
  for (const Functions& functions : vectorised()) {
    for (std::uint32_t first = 0; first < kPatterns; first += kRowsAtOnce) {
      std::vector<f16> scales(kRowsAtOnce);
      std::vector<float> expected(kRowsAtOnce);
      for (std::uint32_t i = 0; i < kRowsAtOnce; ++i) {
        scales[i] = f16{static_cast<std::uint16_t>(first + i)};
        expected[i] = 0.0f + num::widen(scales[i]);  // a sum that begins with +0 is no -0
      }
      const auto found = functions.scaled(scales, Activations::real, 1.0f);
      ASSERT_EQ(difference(expected, expected, found), "") << functions.variant();
      for (float& e : expected) e *= 127.0f;
      const auto found_q8 = functions.scaled(scales, Activations::q8, 127.0f);
      ASSERT_EQ(difference(expected, expected, found_q8), "") << functions.variant() << ", 8 bits";
    }
  }
}

/// Larger steps: A_log belongs to a head, so that this operator is one row and one thread.
TEST(VectorisedFunctions, Exp) { expect_the_same_bits(&Functions::exp, 256); }

}  // namespace
}  // namespace tandem::test
