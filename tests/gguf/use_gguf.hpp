#pragma once

#include <filesystem>

#include "core/error.hpp"
#include "core/io/gguf_config.hpp"
#include "core/text/tokenizer.hpp"
#include "graph/model/gguf_model.hpp"

namespace tandem::test {

/// Whether an error says that a file is bad, and on one line.
inline bool is_named_file_error(const Error& error) {
  const ErrorCode code = error.code();
  const bool of_file = code == ErrorCode::corrupt || code == ErrorCode::unsupported ||
                       code == ErrorCode::mismatch || code == ErrorCode::not_found ||
                       code == ErrorCode::invalid_argument;
  return of_file && std::string_view(error.what()).find('\n') == std::string_view::npos;
}

template <class Action, class OnError>
void reporting(Action action, OnError on_error) {
  try {
    action();
  } catch (const Error& error) {
    on_error(error);
  }
}

/// Does with a GGUF file all that there is to do, each part whether or not the others fail.
template <class OnError>
void use_gguf(const std::filesystem::path& path, OnError on_error) {
  reporting(
      [&] {
        const GgufFile file(path);
        reporting([&] { Tokenizer::from_gguf(file).encode("ABC <|endoftext|> A\xc3\xa9"); },
                  [&](const Error& error) {
                    // A vocabulary may have no token for a byte: then it is the text that is refused.
                    if (error.code() != ErrorCode::unsupported) on_error(error);
                  });
        const GgufModelFile model(path), again(path, {Gears(), true});
        model.uses();
        model.notices();
        model.sizes();
        reporting([&] { again.open(); }, on_error);
        for (const Weight& weight : model.graph().weights()) {
          reporting([&] { model.weights().load(weight.name, true); }, on_error);
        }
        model.open();
      },
      on_error);
}

}  // namespace tandem::test
