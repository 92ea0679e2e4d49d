#pragma once

#if defined(__x86_64__)
#include <cstdint>
#else
#include <cfenv>
#endif

namespace tandem {

/// While it lives, this thread computes as the arithmetic is defined (core/README.md, "One arithmetic"):
/// rounding to nearest, subnormals kept, no exception traps. The destructor restores what was there, with the
/// exception flags, so the caller cannot see that anything was computed.
///
/// It stands at every entry where a result depends on floating point, so that the caller's rounding mode,
/// flush-to-zero, denormals-are-zero and unmasked exceptions change nothing:
/// - the constructor and the computing functions of Session; generate, score, verify and the sampler;
/// - opening, making, packing and writing models (conversion, quantisation, random weights);
/// - the CPU backend's submit and generate, for those who use it without a session;
/// - each piece of work of Threads, since a worker has the environment of whoever made the pool.
/// Functions further inside rely on that. What the library calls back (probes, observers, progress) runs in
/// this environment too.
///
/// Cost: 9 ns for both ends together.
class FloatEnvironment {
 public:
  FloatEnvironment();
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  std::uint32_t caller_;  ///< MXCSR
#else
  std::fenv_t caller_;
#endif
};

}  // namespace tandem
