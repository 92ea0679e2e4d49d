#include "tools/text_input.hpp"

#include "core/io/mapped_file.hpp"
#include "core/text/tokenizer.hpp"
#include "tools/file_options.hpp"

namespace tandem::tools {
namespace {

constexpr std::int64_t kMaxTextBytes = std::int64_t{1} << 30;

}  // namespace

void TextInput::add(CLI::App& command) {
  CLI::Option_group* input = command.add_option_group("input", "one of");
  uses_file(input->add_option("--text", text_file, "a file with text"), FileUse::input);
  uses_file(input->add_option("--ids", ids_file, "a file with token ids"), FileUse::input);
  input->require_option(1);
}

std::vector<TokenId> TextInput::read(const ModelOptions& model, std::int64_t limit) const {
  std::vector<TokenId> ids;
  if (!ids_file.empty()) {
    ids = parse_ids(read_text_file(ids_file, kMaxTextBytes), ids_file);
  } else {
    const std::optional<Tokenizer> tokenizer = model.tokenizer();
    ids = tokenizer->encode(read_text_file(text_file, kMaxTextBytes));
  }
  if (limit > 0 && std::ssize(ids) > limit) ids.resize(static_cast<std::size_t>(limit));
  return ids;
}

}  // namespace tandem::tools
