#include "core/io/new_directory.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "tests/io/io_test_support.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TempDir;

void write(const fs::path& path) { std::ofstream(path) << "content"; }

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  return names;
}

TEST(NewDirectory, AppearsWhenItIsPublished) {
  const TempDir folder;
  const fs::path target = folder.path() / "model";
  {
    NewDirectory made(target / "");  // a slash at the end changes nothing
    write(made.path() / "file");
    EXPECT_FALSE(fs::exists(target));
    made.publish();
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"model"});
  EXPECT_EQ(names_in(target), std::vector<std::string>{"file"});
}

TEST(NewDirectory, LeavesNothingWhenItIsNot) {
  const TempDir folder;
  {
    const NewDirectory made(folder.path() / "model");
    fs::create_directory(made.path() / "inner");
    write(made.path() / "inner" / "file");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(NewDirectory, TakesAnEmptyDirectorysPlace) {
  const TempDir folder;
  const fs::path target = folder.path() / "model";
  fs::create_directory(target);
  NewDirectory made(target);
  write(made.path() / "file");
  made.publish();
  EXPECT_EQ(names_in(target), std::vector<std::string>{"file"});
}

TEST(NewDirectory, RemovesWhatAKilledProcessLeft) {
  const TempDir folder;
  const fs::path target = folder.path() / "model";
  fs::path hidden;
  {
    const NewDirectory made(target);
    hidden = made.path();
  }
  fs::create_directories(hidden / "inner");
  write(hidden / ".tandem-unfinished");
  write(hidden / "inner" / "file");
  write(hidden / "half");
  NewDirectory made(target);
  EXPECT_EQ(made.path(), hidden);
  EXPECT_EQ(names_in(made.path()), std::vector<std::string>{".tandem-unfinished"});
  made.publish();
  EXPECT_TRUE(fs::is_empty(target));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"model"});
}

TEST(NewDirectory, LeavesWhatSomebodyElseHasThere) {
  const TempDir folder;
  const fs::path mine = folder.path() / ".model.tandem-unfinished";
  fs::create_directory(mine);
  write(mine / "notes");
  expect_error([&] { const NewDirectory made(folder.path() / "model"); }, ErrorCode::io,
               {"in the way", ".model.tandem-unfinished"});
  EXPECT_EQ(names_in(mine), std::vector<std::string>{"notes"});
}

TEST(NewDirectory, IsMadeByOneAtATime) {
  const TempDir folder;
  std::optional<NewDirectory> first(std::in_place, folder.path() / "model");
  write(first->path() / "file");
  expect_error([&] { const NewDirectory second(folder.path() / "model"); }, ErrorCode::io,
               {"model", "being made by another process"});
  EXPECT_TRUE(fs::exists(first->path() / "file"));
  first.reset();
  const NewDirectory third(folder.path() / "model");
}

TEST(NewDirectory, RefusesWhatIsThere) {
  const TempDir folder;
  write(folder.path() / "file");
  fs::create_directory(folder.path() / "full");
  write(folder.path() / "full" / "file");
  const auto make = [&](const char* name) {
    return [&, name] { const NewDirectory d(folder.path() / name); };
  };
  expect_error(make("file"), ErrorCode::invalid_argument, {"is a file", "new or empty directory"});
  expect_error(make("full"), ErrorCode::invalid_argument, {"is not empty", "new or empty directory"});
  expect_error(make("missing/model"), ErrorCode::not_found, {"no such directory", "missing", "model"});
  expect_error([] { const NewDirectory root("/"); }, ErrorCode::invalid_argument, {"not empty"});
  EXPECT_EQ(names_in(folder.path()).size(), 2u);
}

TEST(NewDirectory, DoesNotReplaceWhatCameMeanwhile) {
  const TempDir folder;
  const fs::path target = folder.path() / "model";
  {
    NewDirectory made(target);
    fs::create_directory(target);
    write(target / "other");
    expect_error([&] { made.publish(); }, ErrorCode::io, {"cannot make", "model"});
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"model"});
  EXPECT_EQ(names_in(target), std::vector<std::string>{"other"});
}

}  // namespace
}  // namespace tandem
