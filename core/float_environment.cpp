#include "core/float_environment.hpp"

namespace tandem {

// Not in the header: the compiler does not know that arithmetic depends on this register, but it does not
// move memory accesses across the call of a function that it cannot see.
#if defined(__x86_64__)

namespace {
constexpr unsigned kDefault = 0x1f80;  ///< all exceptions masked, round to nearest, subnormals kept
}

FloatEnvironment::FloatEnvironment() : caller_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(kDefault); }
FloatEnvironment::~FloatEnvironment() { __builtin_ia32_ldmxcsr(caller_); }

#else

FloatEnvironment::FloatEnvironment() {
  std::fegetenv(&caller_);
  std::fesetenv(FE_DFL_ENV);
}
FloatEnvironment::~FloatEnvironment() { std::fesetenv(&caller_); }

#endif

}  // namespace tandem
