#include "core/io/lfs_pointer.hpp"

#include "core/error.hpp"

namespace tandem {

void refuse_lfs_pointer(std::string_view beginning, std::string_view where) {
  if (!beginning.starts_with("version https://git-lfs.github.com/spec/")) return;
  fail(ErrorCode::corrupt, "{}: a git-lfs pointer, expected the file itself: fetch it with 'git lfs pull'",
       where);
}

}  // namespace tandem
