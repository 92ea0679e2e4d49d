#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "core/numerics.hpp"
#include "tests/kernels/run.hpp"

namespace tandem::test {
namespace {

/// Elements that are wrong for one reason; the first is kept.
struct Count {
  std::int64_t wrong = 0;
  std::int64_t first = 0;

  void add(std::int64_t place) {
    if (wrong++ == 0) first = place;
  }
};

/// One operand after the run, element by element.
class OperandCheck {
 public:
  OperandCheck(const Operand& operand, const std::vector<std::byte>& expected,
               const std::vector<std::byte>& found)
      : operand_(operand), expected_(expected), found_(found), initial_(guarded(operand)) {}

  std::string text() const {
    // Most of what is compared: what the operator only reads.
    if (operand_.access() == Access::read && std::memcmp(found_.data(), initial_.data(), found_.size()) == 0)
      return "";
    const std::string guards = check_guards();
    return guards.empty() ? check_elements() : guards;
  }

 private:
  std::int64_t begin() const { return kGuardBytes + operand_.offset() * operand_.place_bytes(); }

  std::string check_guards() const {
    const auto end = begin() + static_cast<std::int64_t>(operand_.memory().size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(initial_.size()); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if ((i < begin() || i >= end) && found_[at] != initial_[at]) {
        const bool before = i < begin();
        return fmt::format("'{}': wrote {} bytes {} its memory\n", operand_.name(),
                           before ? begin() - i : i - end + 1, before ? "before" : "past the end of");
      }
    }
    return "";
  }

  std::uint32_t bits(const std::vector<std::byte>& image, std::int64_t place) const {
    std::uint32_t value = 0;
    std::memcpy(&value, image.data() + begin() + place * operand_.place_bytes(),
                static_cast<std::size_t>(operand_.place_bytes()));
    return value;
  }

  std::string check_elements() const {
    Count changed, missing, wrong;
    const auto places = static_cast<std::int64_t>(operand_.memory().size()) / operand_.place_bytes();
    for (std::int64_t place = 0; place < places; ++place) {
      const std::uint32_t now = bits(found_, place), right = bits(expected_, place);
      if (!operand_.writable(place)) {
        if (now != bits(initial_, place)) changed.add(place);
      } else if (now == kPoison) {
        missing.add(place);
      } else if (now != right && !(std::isnan(num::float_of(now)) && std::isnan(num::float_of(right)))) {
        wrong.add(place);
      }
    }
    return line("changed what is not to be written", changed, initial_) +
           line("did not write", missing, expected_) + line("wrong", wrong, expected_);
  }

  std::string line(const char* what, const Count& count, const std::vector<std::byte>& right) const {
    if (count.wrong == 0) return "";
    const std::uint32_t a = bits(right, count.first), b = bits(found_, count.first);
    return fmt::format("'{}': {}: {} of {} elements, first at {}: expected {:08x} ({}), found {:08x} ({})\n",
                       operand_.name(), what, count.wrong, operand_.elements(), where(count.first), a,
                       num::float_of(a), b, num::float_of(b));
  }

  /// An element's row and column (of q4: those of the first level in its place), or the place in memory of
  /// what is no element.
  std::string where(std::int64_t place) const {
    const std::int64_t width = operand_.at(nullptr).row_elements();
    for (std::int64_t e = 0; e < operand_.elements(); ++e) {
      if (operand_.place_of(e) == place) return fmt::format("[{}, {}]", e / width, e % width);
    }
    if (operand_.dtype() == DType::q4)
      return fmt::format("a scale, {} bytes from the first level", 2 * place);
    return fmt::format("a gap, {} elements from the first", place);
  }

  const Operand& operand_;
  const std::vector<std::byte>& expected_;
  const std::vector<std::byte>& found_;
  std::vector<std::byte> initial_;
};

}  // namespace

std::string difference(const Case& test, const Image& expected, const Image& found) {
  std::string text;
  for (std::size_t i = 0; i < test.operands.size(); ++i) {
    text += OperandCheck(test.operands[i], expected.operands[i], found.operands[i]).text();
  }
  return text;
}

}  // namespace tandem::test
