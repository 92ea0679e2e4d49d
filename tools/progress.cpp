#include "tools/progress.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "core/io/own_files.hpp"

namespace tandem::tools {
namespace {

constexpr std::chrono::milliseconds kPatience{300};
constexpr std::chrono::milliseconds kPause{100};

volatile std::sig_atomic_t interrupts = 0;

void on_interrupt(int signal) {
  if (interrupts == 0) {
    interrupts = 1;
    return;
  }
  remove_own_files();  // a second one ends the program at once
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

Progress::Progress(std::string what)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::show(std::uint64_t done, std::uint64_t total) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - start_ < kPatience || now - last_ < kPause) return;
  last_ = now;
  shown_ = true;
  std::fprintf(stderr, "\r%s: %3.0f%%", what_.c_str(),
               100.0 * static_cast<double>(done) / static_cast<double>(total));
}

bool interrupted() { return interrupts != 0; }

void catch_interrupts() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // Who starts the program with a signal ignored (nohup, a shell's background job) wants that.
    if (std::signal(signal, on_interrupt) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

}  // namespace tandem::tools
