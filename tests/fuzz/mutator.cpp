#include "tests/fuzz/mutator.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "core/random.hpp"

namespace tandem::fuzz {
namespace {

constexpr std::size_t kLongest = 1 << 20;
constexpr std::uint64_t kNumbers[] = {0,          1,          2,          3,          7,          8,
                                      31,         32,         33,         127,        128,        255,
                                      256,        65535,      65536,      0x7fffffff, 0x80000000, 0xffffffff,
                                      1ull << 32, 1ull << 62, 1ull << 63, ~0ull,      ~0ull - 31};
constexpr std::string_view kWords[] = {"{", "}",  "[",     "]",    "\"", ",",
                                       ":", "-1", "1e999", "null", "0",  "18446744073709551616"};

class Mutation {
 public:
  Mutation(const std::vector<std::string>& corpus, std::uint64_t seed, std::uint64_t execution)
      : corpus_(corpus), random_("fuzz", mix64(seed) ^ execution) {}

  std::string make() {
    input_ = corpus_[below(corpus_.size())];
    for (std::size_t changes = 1 + below(8); changes > 0; --changes) change();
    if (input_.empty()) input_ = "x";
    if (input_.size() > kLongest) input_.resize(kLongest);
    return std::move(input_);
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.bits(draws_++) % n); }

  /// Headers are at the front, so that half of all places are in the first 1/16.
  std::size_t place() {
    const std::size_t size = std::max<std::size_t>(input_.size(), 1);
    return below(2) == 0 ? below(size) : below(size / 16 + 1);
  }

  void change() {
    const std::size_t at = std::min(place(), input_.size());
    switch (below(8)) {
      case 0:
      case 1:
        if (at < input_.size()) input_[at] = static_cast<char>(input_[at] ^ (1 << below(8)));
        break;
      case 2:
        if (at < input_.size()) input_[at] = static_cast<char>(below(256));
        break;
      case 3:
        write_number(at);
        break;
      case 4:
        input_.erase(at, 1 + below(16));
        break;
      case 5:
        input_.insert(at, input_.substr(std::min(place(), input_.size()), 1 + below(64)));
        break;
      case 6:
        input_.insert(at, kWords[below(std::size(kWords))]);
        break;
      default:
        splice(at);
    }
  }

  void write_number(std::size_t at) {
    const std::uint64_t number = kNumbers[below(std::size(kNumbers))];
    const std::size_t bytes = std::size_t{1} << below(4);
    for (std::size_t i = 0; i < bytes && at + i < input_.size(); ++i) {
      input_[at + i] = static_cast<char>(number >> (8 * i));
    }
  }

  /// A piece of another input in place of as many bytes; rarely all that follows.
  void splice(std::size_t at) {
    const std::string& other = corpus_[below(corpus_.size())];
    if (below(16) == 0) {
      input_.resize(at);
      return;
    }
    const std::string piece = other.substr(below(other.size()), 1 + below(256));
    input_.replace(at, piece.size(), piece);
  }

  const std::vector<std::string>& corpus_;
  CounterRandom random_;
  std::uint64_t draws_ = 0;
  std::string input_;
};

}  // namespace

std::string mutated(const std::vector<std::string>& corpus, std::uint64_t seed, std::uint64_t execution) {
  return Mutation(corpus, seed, execution).make();
}

std::string kind_of(const std::string& message) {
  std::string kind;
  bool quoted = false;
  for (const char c : message) {
    if (c == '"' || c == '\'') quoted = !quoted;
    if (!quoted && std::isdigit(static_cast<unsigned char>(c)) == 0) kind += c;
    if (c == '\n') quoted = false;
  }
  return kind.substr(0, kind.find('\n'));
}

}  // namespace tandem::fuzz
