#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "core/q4.hpp"
#include "tests/kernels/cases.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/kernels/run.hpp"

/// These tests can fail: kernels for 4-bit weights that are wrong on purpose are reported.
namespace tandem::test {
namespace {

/// A matrix's memory that may be spoiled.
struct Q4Copy {
  std::vector<std::uint8_t> levels;
  std::vector<f16> scales;

  explicit Q4Copy(const ConstTensor& weight) {
    const Q4Matrix q4 = q4_matrix(weight);
    const std::int64_t blocks = weight.rows() * q4.row_blocks;
    levels.assign(q4.levels, q4.levels + blocks * (kQ4Block / 2));
    scales.assign(q4.scales, q4.scales + blocks);
  }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> all(levels.size() + scales.size() * sizeof(f16));
    std::memcpy(all.data(), levels.data(), levels.size());
    std::memcpy(all.data() + levels.size(), scales.data(), scales.size() * sizeof(f16));
    return all;
  }
};

using Spoil = void (*)(Q4Copy& copy);

void swap_halves(Q4Copy& copy) {
  for (std::uint8_t& byte : copy.levels) byte = static_cast<std::uint8_t>(byte << 4 | byte >> 4);
}
void pair_neighbours(Q4Copy& copy) {  // byte i holds levels 2i and 2i + 1
  std::vector<std::uint8_t> half(static_cast<std::size_t>(kQ4Block / 2));
  for (std::size_t block = 0; block < copy.levels.size(); block += half.size()) {
    std::uint8_t* levels = copy.levels.data() + block;
    for (int i = 0; i < static_cast<int>(half.size()); ++i) {
      const auto nibble = [&](int k) { return levels[k / 2] >> (k % 2 * 4) & 15; };
      half[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(nibble(i) | nibble(i + 16) << 4);
    }
    std::memcpy(levels, half.data(), half.size());
  }
}
void take_the_next_scale(Q4Copy& copy) {
  copy.scales.erase(copy.scales.begin());
  copy.scales.push_back(copy.scales.back());
}
void take_levels_as_signed(Q4Copy& copy) {
  for (std::uint8_t& byte : copy.levels) byte ^= 0x88;
}
void take_levels_a_byte_later(Q4Copy& copy) {
  copy.levels.erase(copy.levels.begin());
  copy.levels.push_back(0x88);
}

/// A kernel that reads the weights so.
SubmitOn misreading(Spoil spoil) {
  return [spoil](Backend& backend, const Op& op) {
    Linear linear = std::get<Linear>(op);
    Q4Copy copy(linear.weight);
    spoil(copy);
    const std::vector<std::byte> bytes = copy.bytes();
    linear.weight.data = bytes.data();
    return backend.submit(linear);
  };
}

using Product = float (*)(const Linear& op, std::int64_t token, std::int64_t row);

/// Sums of blocks in 16 lanes instead of 32.
float sixteen_lanes(const Linear& op, std::int64_t token, std::int64_t row) {
  const Q4Matrix q4 = q4_matrix(op.weight);
  float lanes[num::kLanes] = {};
  for (std::int64_t b = 0; b < q4.row_blocks; ++b) {
    const float* x = op.x.row<float>(token) + b * kQ4Block;
    float t = 0;
    for (int i = 0; i < kQ4Block; ++i) {
      const std::uint8_t* block = q4.row_levels(row) + b * (kQ4Block / 2);
      t = num::fma(static_cast<float>(num::q4_level(block, i)), x[i], t);
    }
    lanes[b % 16] = num::fma(num::widen(q4.row_scales(row)[b]), t, lanes[b % 16]);
  }
  return num::join_lanes(lanes);
}

/// d * t * x_scale in another order.
float scales_apart(const Linear& op, std::int64_t token, std::int64_t row) {
  const Q4Matrix q4 = q4_matrix(op.weight);
  float lanes[num::kLanes] = {};
  for (std::int64_t b = 0; b < q4.row_blocks; ++b) {
    std::int8_t x[kQ4Block];
    const float scale = num::quantize_q8(op.x.row<float>(token) + b * kQ4Block, x);
    std::int32_t t = 0;
    for (int i = 0; i < kQ4Block; ++i) t += num::q4_level(q4.row_levels(row) + b * (kQ4Block / 2), i) * x[i];
    const float product = static_cast<float>(t) * num::widen(q4.row_scales(row)[b]);
    lanes[b % num::kLanes] = num::fma(product, scale, lanes[b % num::kLanes]);
  }
  return num::join_lanes(lanes);
}

SubmitOn computing(Product product) {
  return [product](Backend&, const Op& op) {
    const auto& linear = std::get<Linear>(op);
    for (std::int64_t t = 0; t < linear.x.rows(); ++t) {
      for (std::int64_t row = 0; row < linear.weight.rows(); ++row) {
        const float sum = product(linear, t, row);
        linear.y.row<float>(t)[row] = linear.residual ? linear.residual.row<float>(t)[row] + sum : sum;
      }
    }
    return std::string_view("wrong");
  };
}

/// Of the 18 q4 cases among the first 72 of linear: how many report the kernel.
int cases_reporting(Activations activations, const SubmitOn& kernel) {
  const auto backend = make_definition();
  int reported = 0;
  for (std::uint64_t seed = activations == Activations::real ? 2 : 3; seed < 72; seed += 4) {
    const Case test = make_case(OpKind::linear, seed, Scale::small);
    reported += !difference(test, run(*backend, test), run(*backend, test, kernel)).empty();
  }
  return reported;
}

TEST(Q4Flaws, NoneIsReportedWithout) {
  for (const Activations a : {Activations::real, Activations::q8}) {
    EXPECT_EQ(cases_reporting(a, misreading([](Q4Copy&) {})), 0);
  }
}

TEST(Q4Flaws, WeightsThatAreMisread) {
  const std::pair<const char*, Spoil> flaws[] = {{"halves swapped", swap_halves},
                                                 {"neighbours in a byte", pair_neighbours},
                                                 {"scale of the next block", take_the_next_scale},
                                                 {"signed levels", take_levels_as_signed},
                                                 {"levels a byte off", take_levels_a_byte_later}};
  for (const auto& [what, flaw] : flaws) {
    EXPECT_GE(cases_reporting(Activations::real, misreading(flaw)), 12) << what;
    EXPECT_GE(cases_reporting(Activations::q8, misreading(flaw)), 12) << what;
  }
}

TEST(Q4Flaws, AnotherOrderOfASum) {
  EXPECT_GE(cases_reporting(Activations::real, computing(sixteen_lanes)), 4);
  EXPECT_GE(cases_reporting(Activations::q8, computing(scales_apart)), 9);
}

}  // namespace
}  // namespace tandem::test
