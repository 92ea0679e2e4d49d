#include "tools/observe/new_text.hpp"

#include <span>

namespace tandem::tools {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

}  // namespace

void NewText::write(std::string_view text) {
  pending_ += text;
  if (pending_.size() >= kPiece) flush();
}

void NewText::flush() {
  file_.write(std::as_bytes(std::span(pending_)));
  pending_.clear();
}

void NewText::publish() {
  flush();
  file_.publish();
}

}  // namespace tandem::tools
