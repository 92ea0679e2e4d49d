#include "backends/cpu/units.hpp"

#include <algorithm>

namespace tandem::cpu {
namespace {

/// Multiply-adds of some 20 us on one core (from cache, avx512): an estimate of what outweighs waking a
/// thread. What it gives for eight threads on one core is in README.md.
constexpr std::int64_t kWorthAThread = std::int64_t{1} << 18;

/// Ranges of a thread, at least: enough to give to one that is done earlier. (A range is cut while it is
/// larger than the grain, so there are up to twice as many.)
constexpr std::int64_t kRanges = 4;

/// An exp and a division cost about as much as this many multiply-adds.
constexpr std::int64_t kTranscendental = 8;

Units units(const Embed& op) { return {op.y.rows(), op.y.row_elements()}; }
Units units(const GatherRows& op) { return {op.y.rows(), op.y.row_elements()}; }
Units units(const RmsNorm& op) { return {op.y.rows(), 2 * op.y.row_elements()}; }
Units units(const Linear& op) { return {op.weight.rows(), op.x.rows() * op.weight.row_elements()}; }
Units units(const SiluMul& op) { return {op.y.rows(), kTranscendental * op.y.row_elements()}; }
Units units(const GdnGates& op) { return {op.a.rows(), 3 * kTranscendental * op.a.row_elements()}; }
Units units(const GdnConv& op) {
  return {op.x.row_elements(), op.x.rows() * (op.weight.row_elements() + kTranscendental)};
}
Units units(const GdnQkNorm& op) { return {op.q.rows(), 4 * op.q.row_elements()}; }
Units units(const GdnDelta& op) {
  const std::int64_t segments = static_cast<std::int64_t>(op.segments.size());
  const std::int64_t tokens = segments > 0 ? std::max<std::int64_t>(1, op.v.rows() / segments) : 1;
  return {segments * op.v.shape[1], 4 * tokens * op.q.shape[2] * op.v.shape[2]};
}
Units units(const GdnGatedNorm& op) { return {op.o.rows() * op.o.shape[1], kTranscendental * op.o.shape[2]}; }
Units units(const HeadNormRope& op) { return {op.y.rows(), 4 * op.y.row_elements()}; }
Units units(const KvAppend& op) { return {op.k.rows(), op.k.row_elements()}; }
Units units(const Attention& op) {
  std::int64_t longest = 0;
  for (const KvSegment& s : op.segments) longest = std::max(longest, s.position + s.range.rows);
  return {op.q.rows() * op.q.shape[1], longest * 2 * op.q.shape[2]};
}
Units units(const SigmoidGate& op) { return {op.y.rows(), kTranscendental * op.y.row_elements()}; }

}  // namespace

Units units_of(const Op& op) {
  return std::visit([](const auto& args) { return units(args); }, op);
}

std::int64_t grain_of(const Units& units, int threads) {
  const std::int64_t worth_a_thread = kWorthAThread / std::max<std::int64_t>(1, units.cost);
  return std::max({std::int64_t{1}, worth_a_thread, units.count / (kRanges * threads)});
}

}  // namespace tandem::cpu
