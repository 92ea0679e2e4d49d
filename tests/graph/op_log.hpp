#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/context.hpp"

namespace tandem {

/// What several backends were asked to do, in order.
class OpLog {
 public:
  /// Throws Error(device_lost) when that was planned.
  void add(std::string line);
  const std::vector<std::string>& lines() const { return lines_; }
  void clear() { lines_.clear(); }
  /// After `successes` more lines, adding one fails, that one only. Negative: none.
  void fail_after(int successes) { left_ = successes; }

 private:
  std::vector<std::string> lines_;
  int left_ = -1;
};

/// "cpu" and "cuda:0", both the CPU, which write down operators, copies and waits before they do them. The
/// log outlives the context.
Context logged_cpu_and_device(OpLog& log);

}  // namespace tandem
