#include "graph/run/rope.hpp"

#include <cmath>

namespace tandem {

RopeTable make_rope_table(std::int64_t positions, std::int64_t pairs, double theta) {
  RopeTable table;
  table.cos.reserve(static_cast<std::size_t>(positions * pairs));
  table.sin.reserve(static_cast<std::size_t>(positions * pairs));
  for (std::int64_t position = 0; position < positions; ++position) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const double frequency = std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs));
      const double angle = static_cast<double>(position) * frequency;
      table.cos.push_back(std::cos(angle));
      table.sin.push_back(std::sin(angle));
    }
  }
  return table;
}

}  // namespace tandem
