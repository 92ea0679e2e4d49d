#include "core/error.hpp"

namespace tandem {

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::corrupt:
      return "corrupt";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::not_resident:
      return "not_resident";
    case ErrorCode::device_lost:
      return "device_lost";
    case ErrorCode::io:
      return "io";
    case ErrorCode::interrupted:
      return "interrupted";
  }
  return "unknown";
}

}  // namespace tandem
