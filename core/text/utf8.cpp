#include "core/text/utf8.hpp"

namespace tandem::text {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

/// A row of table 3-7 of the Unicode standard: how long a character with this first byte is, the bits that
/// the first byte carries, and what the second byte may be. The narrowed ranges are what shuts out overlong
/// forms and surrogates.
struct Lead {
  std::size_t size;
  unsigned char payload_mask, second_min, second_max;
};

constexpr Lead kNoLead{0, 0, 0, 0};

constexpr Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0x7F, 0, 0};
  if (byte < 0xC2) return kNoLead;
  if (byte < 0xE0) return {2, 0x1F, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0x0F, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x0F, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x0F, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x07, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x07, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x07, 0x80, 0x8F};
  return kNoLead;
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  const Lead lead = lead_of(first);
  if (lead.size == 0) return {Utf8Kind::ill_formed, 1, 0};
  char32_t code_point = first & lead.payload_mask;
  for (std::size_t i = 1; i < lead.size; ++i) {
    if (i == bytes.size()) return {Utf8Kind::truncated, i, 0};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const unsigned char min = i == 1 ? lead.second_min : 0x80;
    const unsigned char max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {Utf8Kind::ill_formed, i, 0};
    code_point = (code_point << 6) | (byte & 0x3F);
  }
  return {Utf8Kind::character, lead.size, code_point};
}

std::optional<std::size_t> first_ill_formed(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Step step = utf8_step(bytes.substr(at));
    if (step.kind != Utf8Kind::character) return at;
    at += step.size;
  }
  return std::nullopt;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::size_t append_whole_characters(std::string& out, std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = utf8_step(bytes.substr(at));
    if (step.kind == Utf8Kind::truncated) break;
    if (step.kind == Utf8Kind::character) {
      out.append(bytes.substr(at, step.size));
    } else {
      append_utf8(out, kReplacement);
    }
    at += step.size;
  }
  return at;
}

void append_lossy(std::string& out, std::string_view bytes) {
  if (append_whole_characters(out, bytes) < bytes.size()) append_utf8(out, kReplacement);
}

}  // namespace tandem::text
