#include "core/io/new_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <random>
#include <utility>

#include "core/error.hpp"
#include "core/io/mapped_file.hpp"
#include "core/random.hpp"

namespace tandem {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

constexpr std::string_view kPrefix = ".tandem-", kSuffix = ".tmp";

/// A name that nothing else makes: after process and random number comes a number that follows from both.
std::string hidden_name(std::uint64_t process, std::uint64_t random) {
  const std::string stem = fmt::format("{}{}-{:016x}", kPrefix, process, random);
  return fmt::format("{}-{:016x}{}", stem, mix64(fnv1a64(stem)), kSuffix);
}

bool is_hidden_name(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  const std::string_view numbers = name.substr(kPrefix.size());
  std::uint64_t process = 0, random = 0;
  const auto [end, error] = std::from_chars(numbers.data(), numbers.data() + numbers.size(), process);
  if (error != std::errc() || *end != '-') return false;
  if (std::from_chars(end + 1, numbers.data() + numbers.size(), random, 16).ec != std::errc()) return false;
  return name == hidden_name(process, random);
}

bool is_own_regular_file(const Descriptor& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

/// The kernel forgets a lock with its process, however that ends: a hidden file that is not locked is a
/// leftover. Where files cannot be locked nothing is removed. What cannot be looked at is not ours to judge.
void remove_leftovers(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    if (!is_hidden_name(file->path().filename().native())) continue;
    const Descriptor leftover(::open(file->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!leftover.is_open() || !is_own_regular_file(leftover)) continue;
    if (::flock(leftover.get(), LOCK_EX | LOCK_NB) != 0) continue;
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

bool NewFile::is_stream(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode)))
    return true;
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::canonical(folder_of(path), ignored);
  return folder == "/dev" || folder.native().starts_with("/proc/") || folder == "/proc";
}

void NewFile::require_possible(const std::filesystem::path& target) {
  if (!is_stream(target)) {
    const NewFile probe(target);
  } else if (::access(target.c_str(), W_OK) != 0) {
    fail(ErrorCode::io, "cannot write '{}': {}", target.string(), reason(errno));
  }
}

NewFile::NewFile(const std::filesystem::path& target) : target_(target), stream_(is_stream(target)) {
  struct stat status {};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    fail(ErrorCode::io, "cannot write '{}': it is a directory, expected the name of a file",
         target_.string());
  }
  if (exists && (S_ISSOCK(status.st_mode) || S_ISBLK(status.st_mode))) {
    fail(ErrorCode::io, "cannot write '{}': it is a {}, expected the name of a file", target_.string(),
         S_ISSOCK(status.st_mode) ? "socket" : "disk");
  }
  if (stream_) {
    descriptor_ = open_stream();
    return;
  }
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
  require_mapped_files_unchanged();
  if (stream_) {
    if (descriptor_.close() != 0) refuse("write", errno);
    return;
  }
  if (const int error = sync_and_close(descriptor_); error != 0) refuse("write", error);
  if (before_rename) before_rename();
  if (::rename(hidden_.c_str(), target_.c_str()) != 0) refuse("replace", errno);
  hidden_.clear();
  remembered_ = {};
  lock_ = {};
  sync_directory(folder_of(target_));
}

Descriptor NewFile::open_stream() const {
  // A regular file behind /dev/stdout must go on at its end.
  Descriptor stream(::open(target_.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC));
  if (!stream.is_open()) refuse("write", errno);
  return stream;
}

Descriptor NewFile::create(const std::filesystem::path& folder) {
  // Mode 0666 lets the umask decide, as for any ordinary file; mkstemp would always make it private.
  constexpr int kAttempts = 1000;
  std::random_device random;
  int error = EEXIST;
  for (int i = 0; i < kAttempts && error == EEXIST; ++i) {
    const std::uint64_t number = (std::uint64_t{random()} << 32) | random();
    const std::filesystem::path path = folder / hidden_name(static_cast<std::uint64_t>(::getpid()), number);
    OwnFile remembered(path);
    Descriptor descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    error = descriptor.is_open() ? EEXIST : errno;
    if (!descriptor.is_open() || !claim(descriptor, path)) continue;
    hidden_ = path;
    remembered_ = std::move(remembered);
    lock_ = Descriptor(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0));
    return descriptor;
  }
  refuse("create a temporary file beside", error);
}

void NewFile::refuse(const char* action, int error) const {
  fail(ErrorCode::io, "cannot {} '{}': {}", action, target_.string(), reason(error));
}

}  // namespace tandem
