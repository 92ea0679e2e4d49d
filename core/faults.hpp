#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/fault_plan.hpp"

namespace tandem {

/// A plan of faults under way: which have happened, which calls count, and what the time is. Backends that
/// are wrapped (backends/faulty) ask at every call, a session says which tokens it is about to compute. There
/// is none unless somebody made one and handed it to both. Thread-safe.
class Faults {
 public:
  /// What is to happen to a call that does not throw.
  struct Due {
    std::optional<Fault> flip;
    std::optional<Fault> delay;
  };

  explicit Faults(std::vector<Fault> faults = {});
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  /// One more; its calls count from now on.
  void arm(Fault fault);
  void arm(std::string_view text);
  /// Forgets what has not happened yet. What is lost stays lost.
  void disarm();

  /// A backend is about to do this. Throws Error(device_lost) or Error(out_of_memory) when that is its fate,
  /// naming the backend, `what` and the fault.
  Due call(std::string_view backend, FaultCall call, std::string_view what);

  /// A step is about to compute the tokens [first, end) of a sequence.
  void reach(std::int64_t first, std::int64_t end);
  /// Layers whose weights are to be missed in such a step; each is told once.
  std::vector<int> misses(std::int64_t first, std::int64_t end);

  /// A file is written and has not got its name yet. May not return.
  void before_rename() const;

  bool lost(std::string_view backend) const;
  /// Calls of a backend since the beginning, of one kind or of all.
  std::int64_t calls(std::string_view backend, FaultCall call = FaultCall::any) const;
  /// Faults that have not happened yet.
  std::size_t armed() const;

 private:
  struct Armed {
    Fault fault;
    std::int64_t left;  ///< such calls until it happens, that one included
    bool begun;         ///< its token was reached
  };

  bool counts(Armed& armed, std::string_view backend, FaultCall call) const;

  mutable std::mutex mutex_;
  std::vector<Armed> armed_;
  std::map<std::string, std::string, std::less<>> lost_;  ///< by backend: the fault
  std::map<std::pair<std::string, FaultCall>, std::int64_t> calls_;
};

}  // namespace tandem
