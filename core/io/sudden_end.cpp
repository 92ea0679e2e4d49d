#include "core/io/sudden_end.hpp"

#include <unistd.h>

#include <csignal>
#include <cstring>
#include <span>

#include "core/io/descriptor.hpp"
#include "core/io/mapped_ranges.hpp"
#include "core/io/own_files.hpp"

namespace tandem {
namespace {

int shrunk_exit_code = 1;

void write_text(std::string_view text) { write_all(STDERR_FILENO, std::as_bytes(std::span(text))); }

void on_bus_error(int signal, siginfo_t* info, void*) {
  const char* path = mapped_path_of(info->si_addr);
  if (path == nullptr) {
    ::signal(signal, SIG_DFL);  // the access is tried again, and ends the process
    return;
  }
  write_text("tandem: corrupt: '");
  write_text(path);
  end_at_once("' became shorter while it was in use: do not write to files that a process reads\n",
              shrunk_exit_code);
}

}  // namespace

void end_at_once(std::string_view line, int exit_code) noexcept {
  remove_own_files();
  write_text(line);
  ::_exit(exit_code);
}

void end_when_mapped_file_shrinks(int exit_code) {
  shrunk_exit_code = exit_code;
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace tandem
