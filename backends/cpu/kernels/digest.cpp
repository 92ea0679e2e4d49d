// The library's own source, static in this file and so compiled for this instruction set.
#define XXH_INLINE_ALL
#if defined(__GNUC__) && !defined(__clang__)
// gcc 12 says this of its own AVX-512 intrinsics (gcc bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <xxhash.h>

#include "backends/cpu/kernels/set.hpp"

namespace tandem::cpu::TANDEM_ISA {

void piece_digest(const void* piece, std::size_t bytes, unsigned char* digest) {
  XXH128_canonical_t form;
  XXH128_canonicalFromHash(&form, XXH3_128bits(piece, bytes));
  __builtin_memcpy(digest, form.digest, sizeof form.digest);
}

}  // namespace tandem::cpu::TANDEM_ISA
