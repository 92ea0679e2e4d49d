#include "core/io/new_file.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdio>

#include "core/error.hpp"

namespace tandem {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

constexpr std::string_view kPrefix = ".tandem-", kSuffix = ".tmp";

/// The kernel forgets a lock with its process, however that ends: a hidden file that is not locked is a
/// leftover. Where files cannot be locked nothing is removed. What cannot be looked at is not ours to judge.
void remove_leftovers(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const Descriptor leftover(::open(file->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!leftover.is_open() || ::flock(leftover.get(), LOCK_EX | LOCK_NB) != 0) continue;
    // Its name may belong to a newer file by now.
    if (is_still_at(leftover, file->path())) ::unlink(file->path().c_str());
  }
}

/// Whether a file that was just made is this process's. Somebody may have taken it for a leftover before it
/// was locked, and removed it or be about to.
bool claim(const Descriptor& file, const std::filesystem::path& path) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  return is_still_at(file, path);
}

}  // namespace

NewFile::NewFile(const std::filesystem::path& target) : target_(target) {
  remove_leftovers(folder_of(target_));
  descriptor_ = create(folder_of(target_));
}

NewFile::~NewFile() {
  if (!hidden_.empty()) ::unlink(hidden_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  if (const int error = write_all(descriptor_.get(), bytes); error != 0) refuse("write", error);
}

void NewFile::publish(const std::function<void()>& before_rename) {
  if (const int error = sync_and_close(descriptor_); error != 0) refuse("write", error);
  if (before_rename) before_rename();
  if (::rename(hidden_.c_str(), target_.c_str()) != 0) refuse("replace", errno);
  hidden_.clear();
  lock_ = {};
  sync_directory(folder_of(target_));
}

Descriptor NewFile::create(const std::filesystem::path& folder) {
  // Mode 0666 lets the umask decide, as for any ordinary file; mkstemp would always make it private.
  constexpr int kAttempts = 1000;
  int error = EEXIST;
  for (int i = 0; i < kAttempts && error == EEXIST; ++i) {
    const std::filesystem::path path = folder / fmt::format("{}{}-{}{}", kPrefix, ::getpid(), i, kSuffix);
    Descriptor descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    error = descriptor.is_open() ? EEXIST : errno;
    if (!descriptor.is_open() || !claim(descriptor, path)) continue;
    hidden_ = path;
    lock_ = Descriptor(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0));
    return descriptor;
  }
  refuse("create a temporary file beside", error);
}

void NewFile::refuse(const char* action, int error) const {
  fail(ErrorCode::io, "cannot {} '{}': {}", action, target_.string(), reason(error));
}

}  // namespace tandem
