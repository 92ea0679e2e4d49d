#include "core/io/new_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include "core/error.hpp"
#include "core/io/mapped_file.hpp"
#include "core/shape.hpp"

namespace tandem {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const char* action, const fs::path& path, int error) {
  fail(ErrorCode::io, "cannot {} '{}': {}", action, path.string(), reason(error));
}

/// The path without symbolic links, "." and a slash at the end, so that it has a name and a folder.
fs::path resolve(const fs::path& path) {
  std::error_code error;
  fs::path resolved = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) refuse("examine", path, error.value());
  return resolved.has_filename() ? resolved : resolved.parent_path();
}

void require_vacant(const fs::path& target) {
  std::error_code error;
  const fs::file_status status = fs::status(target, error);
  if (status.type() == fs::file_type::not_found) {
    if (fs::is_directory(target.parent_path(), error)) return;
    fail(ErrorCode::not_found, "no such directory '{}', in which '{}' is to be made",
         target.parent_path().string(), target.filename().string());
  }
  if (!fs::status_known(status)) refuse("examine", target, error.value());
  if (!fs::is_directory(status)) {
    fail(ErrorCode::invalid_argument, "'{}' is a file, expected a new or empty directory", target.string());
  }
  const bool is_empty = fs::is_empty(target, error);
  if (error) refuse("examine", target, error.value());
  if (!is_empty) {
    fail(ErrorCode::invalid_argument, "'{}' is not empty, expected a new or empty directory",
         target.string());
  }
}

}  // namespace

NewDirectory::NewDirectory(const fs::path& target) : target_(resolve(target)) {
  require_vacant(target_);
  hidden_ = target_.parent_path() / fmt::format(".{}.tandem-unfinished", target_.filename().string());
  lock();
  remove_leftovers();
  const Descriptor made(::open(marker().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!made.is_open()) refuse("make", marker(), errno);
  remembered_ = OwnFile(hidden_);
}

fs::path NewDirectory::marker() const { return hidden_ / ".tandem-unfinished"; }

/// A directory without the marker is somebody else's, unless it is empty: then its maker died before it was
/// marked.
void NewDirectory::remove_leftovers() const {
  std::error_code error;
  const bool is_empty = fs::is_empty(hidden_, error);
  if (!is_empty && !fs::is_regular_file(fs::symlink_status(marker(), error))) {
    fail(ErrorCode::io, "'{}' is in the way, and nothing that an earlier run left: move it",
         hidden_.string());
  }
  // The marker goes last, so that whoever dies here leaves a marked directory.
  for (fs::directory_iterator leftover(hidden_, error), end; !error && leftover != end;
       leftover.increment(error)) {
    if (leftover->path() == marker()) continue;
    fs::remove_all(leftover->path(), error);
    if (error) break;
  }
  if (error) refuse("remove what an earlier run left in", hidden_, error.value());
}

/// The kernel forgets a lock with its process, however that ends: a directory that is not locked is a
/// leftover.
void NewDirectory::lock() {
  constexpr int kAttempts = 100;
  for (int i = 0; i < kAttempts; ++i) {
    if (::mkdir(hidden_.c_str(), 0777) != 0 && errno != EEXIST) refuse("make", hidden_, errno);
    Descriptor directory(::open(hidden_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory.is_open() && errno == ENOENT) continue;
    if (!directory.is_open()) refuse("open", hidden_, errno);
    if (::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) refuse("lock", hidden_, errno);
      break;
    }
    // Whoever had it may have published or removed it between open and lock.
    if (!is_still_at(directory, hidden_)) continue;
    lock_ = std::move(directory);
    return;
  }
  fail(ErrorCode::io, "'{}' is being made by another process", target_.string());
}

NewDirectory::~NewDirectory() {
  if (published_) return;
  std::error_code ignored;
  fs::remove_all(hidden_, ignored);
}

void NewDirectory::require_room(std::int64_t bytes) const {
  // Headers, index, configuration and tokenizer: more than they take.
  constexpr std::int64_t kBesidesBytes = 64 << 20;
  std::error_code error;
  const fs::space_info space = fs::space(hidden_, error);
  const auto needed = static_cast<std::uint64_t>(bytes + kBesidesBytes);
  if (error || space.available >= needed) return;  // one that does not tell may have it
  fail(ErrorCode::io, "no room for the model: it takes {}, the file system of '{}' has {} left",
       human_bytes(needed), target_.parent_path().string(), human_bytes(space.available));
}

void NewDirectory::publish() {
  require_mapped_files_unchanged();
  if (::unlink(marker().c_str()) != 0) refuse("complete", hidden_, errno);
  sync_directory(hidden_);
  // Replaces an empty directory, and refuses one that was filled meanwhile.
  if (::rename(hidden_.c_str(), target_.c_str()) != 0) refuse("make", target_, errno);
  published_ = true;
  remembered_ = {};
  sync_directory(target_.parent_path());
}

}  // namespace tandem
