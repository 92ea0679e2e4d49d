#include "core/io/mapped_file.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TempDir;

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const TempDir dir;
  const auto file = MappedFile::open(dir.write("a", std::string_view("x\0y", 3)));
  ASSERT_EQ(file->bytes().size(), 3u);
  EXPECT_EQ(file->bytes()[0], std::byte{'x'});
  EXPECT_EQ(file->bytes()[1], std::byte{0});
  EXPECT_EQ(file->bytes()[2], std::byte{'y'});
  EXPECT_EQ(file->path(), dir.path() / "a");
}

TEST(MappedFile, OutlivesTheNameOfTheFile) {
  const TempDir dir;
  const auto file = MappedFile::open(dir.write("a", "content"));
  fs::remove(dir.path() / "a");
  EXPECT_EQ(file->bytes().back(), std::byte{'t'});
}

TEST(MappedFile, RefusesWhatIsNoFileWithContent) {
  const TempDir dir;
  expect_error([&] { MappedFile::open(dir.path() / "absent"); }, ErrorCode::not_found,
               {"no such file", "absent"});
  expect_error([&] { MappedFile::open(dir.write("a", "x") / "b"); }, ErrorCode::not_found, {"no such file"});
  expect_error([&] { MappedFile::open(dir.path()); }, ErrorCode::invalid_argument, {"is a directory"});
  expect_error([&] { MappedFile::open(dir.write("e", "")); }, ErrorCode::corrupt, {"is empty"});
  const fs::path pipe = dir.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error([&] { MappedFile::open(pipe); }, ErrorCode::invalid_argument, {"pipe", "not a regular file"});
  expect_error([&] { MappedFile::open(dir.path() / std::string(300, 'n')); }, ErrorCode::io, {"cannot open"});
}

TEST(ReadTextFile, ReadsUpToTheLimitAndNoMore) {
  const TempDir dir;
  const fs::path path = dir.write("a", "12345");
  EXPECT_EQ(read_text_file(path, 5), "12345");
  EXPECT_EQ(read_text_file(dir.write("empty", ""), 0), "");
  expect_error([&] { read_text_file(path, 4); }, ErrorCode::invalid_argument, {"5 bytes", "at most 4"});
  expect_error([&] { read_text_file(path, -1); }, ErrorCode::invalid_argument, {"5 bytes"});
  expect_error([&] { read_text_file(dir.path() / "b", 4); }, ErrorCode::not_found, {"no such file"});
}

TEST(MappedFile, NoticesWhatIsWrittenToTheFile) {
  const TempDir dir;
  const fs::path path = dir.write("a", "content");
  const auto file = MappedFile::open(path);
  EXPECT_NO_THROW(file->require_unchanged());
  const auto time = fs::last_write_time(path);
  { std::fstream(path, std::ios::in | std::ios::out) << "C"; }
  fs::last_write_time(path, time);  // that of the change remains
  expect_error([&] { file->require_unchanged(); }, ErrorCode::corrupt, {"written to", "/a"});
}

TEST(MappedFile, OtherNamesAndModesAreNoChange) {
  const TempDir dir;
  const fs::path path = dir.write("a", "content");
  const auto file = MappedFile::open(path);
  fs::create_hard_link(path, dir.path() / "b");
  EXPECT_NO_THROW(file->require_unchanged());
  fs::permissions(path, fs::perms::owner_read);
  EXPECT_NO_THROW(file->require_unchanged());
  write_file_atomically(path, as_bytes("another file"));
  EXPECT_NO_THROW(file->require_unchanged());
}

TEST(WriteFileAtomically, CreatesAndReplaces) {
  const TempDir dir;
  const fs::path path = dir.path() / "out";
  write_file_atomically(path, as_bytes("first, and longer"));
  EXPECT_EQ(read_text_file(path, 100), "first, and longer");
  write_file_atomically(path, as_bytes("second"));
  EXPECT_EQ(read_text_file(path, 100), "second");
  write_file_atomically(path, {});
  EXPECT_EQ(read_text_file(path, 100), "");
  EXPECT_EQ(entries(dir.path()), 1u) << "a temporary file was left behind";
}

TEST(WriteFileAtomically, MakesAnOrdinaryFile) {
  const TempDir dir;
  const fs::path ordinary = dir.write("ordinary", "x");
  write_file_atomically(dir.path() / "out", as_bytes("x"));
  EXPECT_EQ(fs::status(dir.path() / "out").permissions(), fs::status(ordinary).permissions());
}

TEST(WriteFileAtomically, LeavesAMappingOfTheOldContentAlone) {
  const TempDir dir;
  const fs::path path = dir.write("a", "old");
  const auto file = MappedFile::open(path);
  write_file_atomically(path, as_bytes("n"));
  EXPECT_EQ(file->bytes()[2], std::byte{'d'});
}

TEST(WriteFileAtomically, LeavesNothingBehindWhenItFails) {
  const TempDir dir;
  fs::create_directory(dir.path() / "taken");
  expect_error([&] { write_file_atomically(dir.path() / "taken", as_bytes("x")); }, ErrorCode::io,
               {"cannot write", "taken", "directory"});
  EXPECT_EQ(entries(dir.path()), 1u);
  EXPECT_TRUE(fs::is_directory(dir.path() / "taken"));

  expect_error([&] { write_file_atomically(dir.path() / "absent" / "out", as_bytes("x")); }, ErrorCode::io,
               {"cannot create", "absent"});
}

/// Exits with 0 if the failed write is an Error io and nothing has changed.
[[noreturn]] void write_beyond_the_limit(const fs::path& path) {
  // A limit on the size of files fails a write as a full device does.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = 4;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  try {
    write_file_atomically(path, as_bytes("much longer than four bytes"));
  } catch (const Error& error) {
    const bool intact = entries(path.parent_path()) == 1 && read_text_file(path, 100) == "old";
    ::_exit(error.code() == ErrorCode::io && intact ? 0 : 1);
  }
  ::_exit(2);
}

TEST(WriteFileAtomically, LeavesTheOldContentWhenTheDeviceIsFull) {
  const TempDir dir;
  const fs::path path = dir.write("a", "old");
  EXPECT_EXIT(write_beyond_the_limit(path), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tandem
