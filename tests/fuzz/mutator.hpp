#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::fuzz {

/// An input of the corpus with one to eight changes: bits, bytes, numbers that mean something, pieces cut
/// out, repeated, or taken from another input. A pure function of its arguments. REQUIRES: no input is empty.
std::string mutated(const std::vector<std::string>& corpus, std::uint64_t seed, std::uint64_t execution);

/// The kind of a message: numbers and what is in quotes left out.
std::string kind_of(const std::string& message);

}  // namespace tandem::fuzz
