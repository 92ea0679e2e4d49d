#include "core/text/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "core/error.hpp"
#include "core/text/utf8.hpp"

namespace tandem::text {
namespace {

constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

/// No character below U+0300 (CC 80 in UTF-8) changes under NFC or combines with what stands before it.
bool is_surely_nfc(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

[[noreturn]] void fail_nfc(utf8proc_ssize_t status) {
  fail(ErrorCode::invalid_argument, "text to tokenize: cannot be normalised to NFC: {}; check the text",
       utf8proc_errmsg(status));
}

std::vector<utf8proc_int32_t> decomposed(std::string_view text) {
  std::vector<utf8proc_int32_t> out;
  out.reserve(text.size() + 1);
  std::array<utf8proc_int32_t, 32> parts{};  // the longest canonical decomposition has 4 code points
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    int boundary = 0;  // of graphemes: not asked for, but the interface wants it
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), kCompose, &boundary);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(parts.size())) fail_nfc(count);
    out.insert(out.end(), parts.begin(), parts.begin() + count);
    at += step.size;
  }
  return out;
}

/// The canonical ordering: each run of combining marks sorted by class. utf8proc_map would do it by swapping
/// neighbours, which takes minutes on a megabyte of marks in the wrong order.
void order_marks(std::vector<utf8proc_int32_t>& code_points) {
  const auto mark_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  const auto is_mark = [&](utf8proc_int32_t c) { return mark_class(c) != 0; };
  for (auto begin = code_points.begin(); begin != code_points.end();) {
    begin = std::find_if(begin, code_points.end(), is_mark);
    const auto end = std::find_if_not(begin, code_points.end(), is_mark);
    std::stable_sort(begin, end, [&](auto a, auto b) { return mark_class(a) < mark_class(b); });
    begin = end;
  }
}

}  // namespace

std::string nfc(std::string_view text) {
  if (is_surely_nfc(text)) return std::string(text);
  std::vector<utf8proc_int32_t> code_points = decomposed(text);
  order_marks(code_points);
  const auto count = utf8proc_normalize_utf32(code_points.data(),
                                              static_cast<utf8proc_ssize_t>(code_points.size()), kCompose);
  if (count < 0) fail_nfc(count);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    append_utf8(out, static_cast<char32_t>(code_points[static_cast<std::size_t>(i)]));
  }
  return out;
}

bool is_white_space(char32_t code_point) {
  if (code_point >= 0x09 && code_point <= 0x0D) return true;
  if (code_point == 0x85) return true;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

}  // namespace tandem::text
