#include "core/io/new_file.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include "core/io/mapped_file.hpp"
#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::size_t count_files(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator files(folder);
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST(NewFile, AppearsWhenItIsPublished) {
  const test::TempDir dir;
  const auto path = dir.write("target", "old");
  NewFile file(path);
  file.write(bytes_of("one, "));
  file.write(bytes_of("two"));
  EXPECT_EQ(read_text_file(path, 100), "old");
  file.publish();
  EXPECT_EQ(read_text_file(path, 100), "one, two");
  EXPECT_EQ(count_files(dir.path()), 1u);
}

TEST(NewFile, LeavesNothingWhenItIsNot) {
  const test::TempDir dir;
  {
    NewFile file(dir.path() / "target");
    file.write(bytes_of("half"));
    EXPECT_EQ(count_files(dir.path()), 1u);
  }
  EXPECT_EQ(count_files(dir.path()), 0u);
}

TEST(NewFile, TwoOfOneTargetDoNotMix) {
  const test::TempDir dir;
  const auto path = dir.path() / "target";
  NewFile first(path), second(path);
  first.write(bytes_of("first"));
  second.write(bytes_of("second"));
  second.publish();
  first.publish();
  EXPECT_EQ(read_text_file(path, 100), "first");
  EXPECT_EQ(count_files(dir.path()), 1u);
}

TEST(NewFile, RemovesWhatDeadProcessesLeftAndNothingElse) {
  const test::TempDir dir;
  const pid_t child = ::fork();
  if (child == 0) {
    NewFile dies(dir.path() / "one");
    dies.write(bytes_of("half"));
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(count_files(dir.path()), 1u);
  dir.write(".tandem-user-notes.tmp", "somebody's");
  dir.write(".tandem-1-0.tmp", "somebody's");
  NewFile first(dir.path() / "one");
  first.write(bytes_of("first"));
  EXPECT_EQ(count_files(dir.path()), 3u);
  NewFile second(dir.path() / "two");  // sees the first one's hidden file, which is in use
  EXPECT_EQ(count_files(dir.path()), 4u);
  first.publish();
  second.write(bytes_of("second"));
  second.publish();
  EXPECT_EQ(read_text_file(dir.path() / "one", 100), "first");
  EXPECT_EQ(read_text_file(dir.path() / "two", 100), "second");
  EXPECT_EQ(count_files(dir.path()), 4u);
}

TEST(NewFile, WhoeverDiesBeforeTheRenameLeavesTheOldFile) {
  const test::TempDir dir;
  const auto path = dir.write("target", "old");
  {
    NewFile file(path);
    file.write(bytes_of("new"));
    EXPECT_THROW(file.publish([&] {
      EXPECT_EQ(count_files(dir.path()), 2u);
      throw std::runtime_error("dies");
    }),
                 std::runtime_error);
    EXPECT_EQ(read_text_file(path, 100), "old");
  }
  EXPECT_EQ(count_files(dir.path()), 1u);
}

TEST(NewFile, RefusalsAreNamed) {
  const test::TempDir dir;
  test::expect_error([&] { NewFile(dir.path() / "none" / "target"); }, ErrorCode::io, {"none/target"});
  std::filesystem::create_directory(dir.path() / "folder");
  test::expect_error([&] { NewFile(dir.path() / "folder"); }, ErrorCode::io, {"folder", "is a directory"});
  NewFile file(dir.path() / "late");
  std::filesystem::create_directory(dir.path() / "late");
  test::expect_error([&] { file.publish(); }, ErrorCode::io, {"replace", "late"});
}

}  // namespace
}  // namespace tandem
