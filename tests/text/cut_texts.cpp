// Normalises or cuts many texts, for a test that compares with another implementation.
//
// usage: cut_texts nfc | cut_texts words PATTERN | cut_texts ids TOKENIZER_JSON
//
// Each text on stdin ends with byte FF, which UTF-8 never has; so does each answer. Words and ids end with
// FE.

#include <cstdio>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/split_pattern.hpp"
#include "core/text/tokenizer.hpp"
#include "core/text/unicode.hpp"

namespace {

using Answer = std::function<std::string(std::string_view)>;

Answer words_by(const char* regex) {
  return [pattern = std::make_shared<tandem::text::SplitPattern>(regex, "pattern")](std::string_view text) {
    std::vector<std::string_view> words;
    pattern->split({&text, 1}, words);
    std::string answer;
    for (std::string_view word : words) answer.append(word).push_back('\xFE');
    return answer;
  };
}

Answer ids_by(const char* file) {
  return [tokenizer = tandem::Tokenizer::load(file)](std::string_view text) {
    std::string answer;
    for (tandem::TokenId id : tokenizer.encode(text)) answer.append(std::to_string(id)).push_back('\xFE');
    return answer;
  };
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  Answer answer;
  if (mode == "nfc") answer = tandem::text::nfc;
  if (mode == "words" && argc == 3) answer = words_by(argv[2]);
  if (mode == "ids" && argc == 3) answer = ids_by(argv[2]);
  if (!answer) return 2;
  const std::string input{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  for (std::size_t begin = 0; begin < input.size();) {
    const std::size_t end = input.find('\xFF', begin);
    const std::string text = answer(std::string_view(input).substr(begin, end - begin)) + '\xFF';
    std::fwrite(text.data(), 1, text.size(), stdout);
    begin = end + 1;
  }
  return 0;
}
