// Somebody else's program: uses what is installed through its pkg-config file. Compiled and run by
// tools/test.
#include <cstdio>

#include "core/error.hpp"
#include "core/shape.hpp"

int main() {
  if (tandem::to_string({3, 4}) != "[3, 4]") return 1;
  try {
    tandem::checked_mul(-1, 2, "size");
  } catch (const tandem::Error& error) {
    std::puts(error.what());
    return error.code() == tandem::ErrorCode::invalid_argument ? 0 : 1;
  }
  return 1;
}
