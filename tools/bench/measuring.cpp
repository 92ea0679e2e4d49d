#include "tools/bench/measuring.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <ctime>

#include "core/error.hpp"
#include "tools/progress.hpp"

namespace tandem::tools {

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

nlohmann::json to_json(const Spread& s) { return {{"median", s.median}, {"min", s.min}, {"max", s.max}}; }

void repeat(std::int64_t runs, const std::function<void(bool is_warm_up)>& body) {
  Progress progress("measuring");
  for (std::int64_t i = 0; i <= runs; ++i) {
    if (interrupted()) fail(ErrorCode::interrupted, "interrupted after {} of {} runs", i, runs + 1);
    progress.show(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(runs + 1));
    body(i == 0);
  }
}

std::int64_t count_different(std::span<const std::byte> a, std::span<const std::byte> b, DType type) {
  assert(a.size() == b.size());
  const std::size_t element = size_of(type);
  std::int64_t different = 0;
  for (std::size_t i = 0; i < a.size(); i += element)
    different += std::memcmp(&a[i], &b[i], element) == 0 ? 0 : 1;
  return different;
}

std::string time_now() {
  const std::time_t time = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace tandem::tools
