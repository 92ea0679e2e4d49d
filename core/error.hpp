#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

/// What kind of thing went wrong. The program turns a code into its exit code (tools/README.md).
enum class ErrorCode {
  invalid_argument,  ///< the caller asked for something that has no meaning
  not_found,         ///< a file, tensor or sequence that is not there (a stale handle too)
  unsupported,       ///< meaningful, but not built into this version or this machine
  mismatch,          ///< two things that must agree (shape, type, geometry) do not
  corrupt,           ///< a file that contradicts itself
  out_of_memory,     ///< more memory than the machine or the fixed budget has
  not_resident,      ///< a stateful operator was asked to run away from its state or weights
  device_lost,       ///< the device stopped answering
  io,                ///< the operating system refused a read or a write
  interrupted,       ///< the user asked to stop
};

std::string_view name(ErrorCode code);

/// The one exception of the library. The message is one line: what was expected, what was found, what to do.
/// After an Error nothing has happened: steps are transactions and files appear whole or not at all.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

/// Throws an Error with a formatted message.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tandem
