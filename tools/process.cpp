#include "tools/process.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "core/io/mapped_file.hpp"
#include "core/io/sudden_end.hpp"
#include "core/text/printable.hpp"
#include "tools/command.hpp"

namespace tandem::tools {
namespace {

/// Opened the wrong way round, so that using a closed stream stays the error that it was.
void take_closed_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;  // takes the lowest: fd
  }
}

/// An exception that leaves a thread of a library, or a destructor.
[[noreturn]] void on_terminate() {
  std::string what = "ended without a reason";
  int code = kInternal;
  std::string kind = "internal";
  try {
    if (const std::exception_ptr current = std::current_exception()) std::rethrow_exception(current);
  } catch (const Error& error) {
    what = error.what();
    code = exit_code(error.code());
    kind = name(error.code());
  } catch (const std::system_error& error) {  // threads that cannot be made
    what = error.what();
    code = exit_code(ErrorCode::out_of_memory);
    kind = name(ErrorCode::out_of_memory);
  } catch (const std::bad_alloc&) {
    what = "the system has no memory left";
    code = exit_code(ErrorCode::out_of_memory);
    kind = name(ErrorCode::out_of_memory);
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  end_at_once(fmt::format("tandem: {}: {}\n", kind, printable(what)), code);
}

}  // namespace

void prepare_process() {
  take_closed_streams();
  std::signal(SIGXFSZ, SIG_IGN);
  end_when_mapped_file_shrinks(exit_code(ErrorCode::corrupt));
  std::set_terminate(on_terminate);
  watch_mapped_files(MappedWatch::stamps);
}

}  // namespace tandem::tools
