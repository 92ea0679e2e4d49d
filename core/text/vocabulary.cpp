#include "core/text/vocabulary.hpp"

namespace tandem::text {

void Vocabulary::add(TokenId id, std::string_view bytes) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= slots_.size()) slots_.resize(index + 1);
  slots_[index].present = true;
  replace(id, bytes);
}

void Vocabulary::replace(TokenId id, std::string_view bytes) {
  Slot& slot = slots_[static_cast<std::size_t>(id)];
  slot.offset = pool_.size();
  slot.size = static_cast<std::uint32_t>(bytes.size());
  pool_.append(bytes);
}

std::string_view Vocabulary::bytes(TokenId id) const {
  const Slot& slot = slots_[static_cast<std::size_t>(id)];
  return std::string_view(pool_).substr(slot.offset, slot.size);
}

}  // namespace tandem::text
