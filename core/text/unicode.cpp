#include "core/text/unicode.hpp"

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "core/text/code_points.hpp"
#include "core/text/utf8.hpp"

namespace tandem::text {
namespace {

/// One step of canonical decomposition.
struct Decomposition {
  char32_t code_point, first, second;
  bool composes;
};

#include "core/text/unicode/normal_form.inc"

// Hangul syllables are computed; names and numbers are the standard's (section 3.12).
constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;

/// Whether x is one of the `count` code points from `base`.
constexpr bool is_in(char32_t x, char32_t base, char32_t count) { return x >= base && x < base + count; }

struct Composition {
  char32_t second, first, composed;  // in the order of the search

  auto key() const { return std::pair(second, first); }
};

/// What is computed once from the tables. Most text has nothing to normalise: a page of 256 code points that
/// no table mentions needs no search.
struct Index {
  static constexpr std::size_t kPages = (kLastCodePoint + 1) >> 8;

  std::bitset<kPages> marks, decompositions, seconds;
  std::vector<Composition> compositions;

  Index() {
    for (std::size_t i = 0; i + 1 < std::size(kMarkRuns); ++i) {
      if ((kMarkRuns[i] & 0xFF) == 0) continue;
      const std::size_t last_page = ((kMarkRuns[i + 1] >> 8) - 1) >> 8;
      for (std::size_t page = kMarkRuns[i] >> 16; page <= last_page; ++page) marks.set(page);
    }
    for (const Decomposition& step : kDecompositions) {
      decompositions.set(step.code_point >> 8);
      if (!step.composes) continue;
      seconds.set(step.second >> 8);
      compositions.push_back({step.second, step.first, step.code_point});
    }
    std::ranges::sort(compositions, {}, &Composition::key);
  }
};

const Index& index() {
  static const Index the_index;
  return the_index;
}

/// The canonical combining class; 0 for a starter.
unsigned mark_class(char32_t c) {
  if (!index().marks.test(c >> 8)) return 0;
  const auto* after = std::upper_bound(std::begin(kMarkRuns), std::end(kMarkRuns), c << 8 | 0xFF);
  return after[-1] & 0xFF;
}

void decompose(char32_t c, std::u32string& out) {
  if (is_in(c, kSBase, kSCount)) {
    const char32_t syllable = c - kSBase;
    out.push_back(kLBase + syllable / (kVCount * kTCount));
    out.push_back(kVBase + syllable / kTCount % kVCount);
    if (syllable % kTCount != 0) out.push_back(kTBase + syllable % kTCount);
    return;
  }
  if (index().decompositions.test(c >> 8)) {
    const auto* step = std::ranges::lower_bound(kDecompositions, c, {}, &Decomposition::code_point);
    if (step != std::end(kDecompositions) && step->code_point == c) {
      decompose(step->first, out);
      if (step->second != 0) decompose(step->second, out);
      return;
    }
  }
  out.push_back(c);
}

/// The character that a pair composes to, or 0.
char32_t composed(char32_t first, char32_t second) {
  if (is_in(first, kLBase, kLCount) && is_in(second, kVBase, kVCount)) {
    return kSBase + ((first - kLBase) * kVCount + (second - kVBase)) * kTCount;
  }
  if (is_in(first, kSBase, kSCount) && (first - kSBase) % kTCount == 0 &&
      is_in(second, kTBase + 1, kTCount - 1)) {
    return first + (second - kTBase);
  }
  if (!index().seconds.test(second >> 8)) return 0;
  const auto& all = index().compositions;
  const std::pair key(second, first);
  const auto found = std::ranges::lower_bound(all, key, {}, &Composition::key);
  return found != all.end() && found->key() == key ? found->composed : 0;
}

/// No character below U+0300 (CC 80 in UTF-8) changes under NFC or combines with what stands before it.
bool is_surely_nfc(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

std::u32string decomposed(std::string_view text) {
  std::u32string out;
  out.reserve(text.size() + 1);
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    decompose(step.code_point, out);
    at += step.size;
  }
  return out;
}

/// The canonical ordering: each run of combining marks sorted by class, equals as they stood.
void order_marks(std::u32string& code_points) {
  const auto is_mark = [](char32_t c) { return mark_class(c) != 0; };
  for (auto begin = code_points.begin(); begin != code_points.end();) {
    begin = std::find_if(begin, code_points.end(), is_mark);
    const auto end = std::find_if_not(begin, code_points.end(), is_mark);
    if (end - begin > 1) std::ranges::stable_sort(begin, end, {}, mark_class);
    begin = end;
  }
}

/// The canonical composition, in place. A mark is blocked from the starter by one of its own class or a
/// higher one that stayed between them, and a starter by any that stayed.
void compose(std::u32string& code_points) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t starter = kNone, size = 0;
  unsigned last_class = 0;  // of the character that stayed last, if it is after the starter
  for (char32_t c : code_points) {
    const unsigned own_class = mark_class(c);
    const bool is_blocked = starter + 1 != size && last_class >= own_class;
    if (starter != kNone && !is_blocked) {
      if (const char32_t whole = composed(code_points[starter], c); whole != 0) {
        code_points[starter] = whole;
        continue;
      }
    }
    if (own_class == 0) starter = size;
    last_class = own_class;
    code_points[size++] = c;
  }
  code_points.resize(size);
}

}  // namespace

std::string nfc(std::string_view text) {
  if (is_surely_nfc(text)) return std::string(text);
  std::u32string code_points = decomposed(text);
  order_marks(code_points);
  compose(code_points);
  std::string out;
  out.reserve(text.size());
  for (char32_t c : code_points) append_utf8(out, c);
  return out;
}

bool is_white_space(char32_t code_point) {
  const auto spaces = CodePointSet::white_space().ranges();
  const auto is_before = [](const CodePointRange& range, char32_t c) { return range.last < c; };
  const auto found = std::lower_bound(spaces.begin(), spaces.end(), code_point, is_before);
  return found != spaces.end() && found->first <= code_point;
}

}  // namespace tandem::text
