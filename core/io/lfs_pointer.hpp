#pragma once

#include <string_view>

namespace tandem {

/// Throws Error(corrupt), saying what to do, when a file begins as the pointer that git-lfs leaves in place
/// of a large file that was not fetched. `beginning` is at least the file's first 64 bytes, or all of it;
/// `where` names the file. Thread-safe.
void refuse_lfs_pointer(std::string_view beginning, std::string_view where);

}  // namespace tandem
