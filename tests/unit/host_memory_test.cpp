#include "core/host_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// A made-up file system below a directory of its own.
class AvailableMemoryTest : public testing::Test {
 protected:
  AvailableMemoryTest() {
    std::string pattern = fs::temp_directory_path() / "tandem-memory-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~AvailableMemoryTest() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  fs::path root_;
};

TEST_F(AvailableMemoryTest, IsUnknownWithoutProc) {
  EXPECT_EQ(available_host_bytes(root_), std::numeric_limits<std::uint64_t>::max());
}

TEST_F(AvailableMemoryTest, IsTheKernelsEstimate) {
  write("proc/meminfo", "MemTotal:  9000 kB\nMemFree:  100 kB\nMemAvailable:   5000 kB\n");
  EXPECT_EQ(available_host_bytes(root_), 5000u * 1024);
}

TEST_F(AvailableMemoryTest, IsLessInsideALimitedGroup) {
  write("proc/meminfo", "MemAvailable: 5000 kB\n");
  write("proc/self/cgroup", "1:name=systemd:/old\n0::/a/b\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  write("sys/fs/cgroup/a/memory.max", "1000000\n");
  write("sys/fs/cgroup/a/memory.current", "400000\n");
  write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 100000\n");
  EXPECT_EQ(available_host_bytes(root_), 700000u);
}

TEST_F(AvailableMemoryTest, KnowsTheLimitOfAContainersRootGroup) {
  write("proc/meminfo", "MemAvailable: 5000 kB\n");
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "300000\n");
  EXPECT_EQ(available_host_bytes(root_), 300000u);
  write("sys/fs/cgroup/memory.current", "400000\n");
  EXPECT_EQ(available_host_bytes(root_), 0u);
}

TEST_F(AvailableMemoryTest, IgnoresALimitAboveTheMachine) {
  write("proc/meminfo", "MemAvailable: 5 kB\n");
  write("sys/fs/cgroup/memory.max", "300000\n");
  EXPECT_EQ(available_host_bytes(root_), 5u * 1024);
}

}  // namespace
}  // namespace tandem
