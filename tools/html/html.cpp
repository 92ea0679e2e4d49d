#include "tools/html/html.hpp"

#include <fmt/format.h>

#include "core/text/utf8.hpp"

namespace tandem::tools::html {
namespace {

bool is_xml_character(unsigned char c) { return c >= 0x20 || c == '\t' || c == '\n'; }

std::string_view reference(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string escape(std::string_view text) {
  std::string whole, result;
  text::append_lossy(whole, text);
  for (char c : whole) {
    if (const std::string_view known = reference(c); !known.empty()) {
      result += known;
    } else if (is_xml_character(static_cast<unsigned char>(c))) {
      result += c;
    } else {
      text::append_utf8(result, U'\uFFFD');
    }
  }
  return result;
}

std::string element(std::string_view name, const Attributes& attributes, std::string_view markup) {
  std::string result = fmt::format("<{}", name);
  for (const auto& [key, value] : attributes) {
    if (!value.empty()) result += fmt::format(" {}=\"{}\"", key, escape(value));
  }
  return result + (markup.empty() ? "/>" : fmt::format(">{}</{}>", markup, name));
}

std::string text_element(std::string_view name, const Attributes& attributes, std::string_view text) {
  return element(name, attributes, escape(text));
}

std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string page(std::string_view title, std::string_view style, std::string_view body_markup) {
  const std::string head = element("meta", {{"charset", "utf-8"}}) +
                           element("meta", {{"name", "viewport"}, {"content", "width=device-width"}}) +
                           text_element("title", {}, title) + element("style", {}, style);
  return "<!DOCTYPE html>\n" +
         element("html", {{"xmlns", "http://www.w3.org/1999/xhtml"}, {"lang", "en"}},
                 element("head", {}, head) + "\n" + element("body", {}, body_markup)) +
         "\n";
}

}  // namespace tandem::tools::html
