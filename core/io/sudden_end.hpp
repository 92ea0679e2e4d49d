#pragma once

#include <string_view>

namespace tandem {

/// Writes a line to standard error, removes this process's temporary files and ends it, without destructors.
/// May be called by a signal handler.
[[noreturn]] void end_at_once(std::string_view line, int exit_code) noexcept;

/// For programs, to be called once at the start: a file that becomes shorter while it is mapped (SIGBUS) ends
/// the process with one line that names it, this exit code and no temporary file. Any other SIGBUS ends it as
/// the system does.
void end_when_mapped_file_shrinks(int exit_code);

}  // namespace tandem
