#include "tools/progress.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace tandem::tools {
namespace {

constexpr std::chrono::milliseconds kPatience{300};
constexpr std::chrono::milliseconds kPause{100};

volatile std::sig_atomic_t interrupts = 0;

void on_interrupt(int signal) {
  interrupts = 1;
  std::signal(signal, SIG_DFL);  // a second one ends the program at once
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
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

}  // namespace tandem::tools
