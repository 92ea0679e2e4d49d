#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

/// HTML and SVG as text that is well-formed XML too. What these functions call markup is taken as it is; text
/// and attributes are escaped.
namespace tandem::tools::html {

/// Text as content or as the value of an attribute: & < > " ' as references, U+FFFD for what is no UTF-8 or
/// no character of XML.
std::string escape(std::string_view text);

using Attributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// <name key="value">markup</name>, or <name key="value"/> when there is nothing inside. Attributes with an
/// empty value are left out.
std::string element(std::string_view name, const Attributes& attributes, std::string_view markup = {});

/// The same around text.
std::string text_element(std::string_view name, const Attributes& attributes, std::string_view text);

/// A number for an attribute of SVG: two decimals at most.
std::string number(double value);

/// A whole page that needs no other file. `style` is CSS.
std::string page(std::string_view title, std::string_view style, std::string_view body_markup);

}  // namespace tandem::tools::html
