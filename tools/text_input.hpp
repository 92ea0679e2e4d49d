#pragma once

#include "tools/command.hpp"

namespace tandem::tools {

/// A text that a command goes through: from a file of text or of token ids.
struct TextInput {
  std::string text_file;
  std::string ids_file;

  void add(CLI::App& command);  ///< --text and --ids, of which one must be given

  /// The first `limit` tokens (0: all). Throws as read_text_file, parse_ids and ModelOptions::tokenizer.
  std::vector<TokenId> read(const ModelOptions& model, std::int64_t limit) const;
};

}  // namespace tandem::tools
