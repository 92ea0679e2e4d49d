#include "core/io/new_file.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>

#include "core/error.hpp"

namespace tandem {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

NewFile::NewFile(const std::filesystem::path& target)
    : target_(target), descriptor_(create(folder_of(target))) {}

NewFile::~NewFile() {
  if (!hidden_.empty()) ::unlink(hidden_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  if (const int error = write_all(descriptor_.get(), bytes); error != 0) refuse("write", error);
}

void NewFile::publish() {
  if (const int error = sync_and_close(descriptor_); error != 0) refuse("write", error);
  if (::rename(hidden_.c_str(), target_.c_str()) != 0) refuse("replace", errno);
  hidden_.clear();
  sync_directory(folder_of(target_));
}

Descriptor NewFile::create(const std::filesystem::path& folder) {
  // Mode 0666 lets the umask decide, as for any ordinary file; mkstemp would always make it private.
  constexpr int kAttempts = 1000;
  int error = EEXIST;
  for (int i = 0; i < kAttempts && error == EEXIST; ++i) {
    const std::filesystem::path path = folder / fmt::format(".tandem-{}-{}.tmp", ::getpid(), i);
    Descriptor descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (descriptor.is_open()) {
      hidden_ = path;
      return descriptor;
    }
    error = errno;
  }
  refuse("create a temporary file beside", error);
}

void NewFile::refuse(const char* action, int error) const {
  fail(ErrorCode::io, "cannot {} '{}': {}", action, target_.string(), reason(error));
}

}  // namespace tandem
