#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tandem::tools {

/// A line on the terminal that shows how far long work is; nothing when standard error is no terminal, or
/// when the work is done before anybody would wait. Erased when the object goes.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::uint64_t done, std::uint64_t total);

 private:
  std::string what_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

/// Whether Ctrl-C (or SIGTERM, or SIGHUP) came. The first one asks the work to end cleanly, the second ends
/// the program.
bool interrupted();
/// For commands that look at interrupted(); the others end at once, as the system does it. A signal that is
/// ignored stays ignored.
void catch_interrupts();

}  // namespace tandem::tools
