#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.hpp"
#include "tests/fuzz/mutator.hpp"

/// Runs a fuzz target without a compiler's fuzzer: for a time on mutations of its seeds, or on given files.
namespace tandem::fuzz {
namespace {

constexpr const char* kUsage =
    "usage: TARGET [--seconds S] [--seed N] [FILE...]\n"
    "Without files: mutates the target's seeds for S seconds (TANDEM_FUZZ_SECONDS, or 2) and prints how "
    "many\n"
    "inputs were run. An input on which the target dies is left as crash-SEED-EXECUTION in the current "
    "folder;\n"
    "give it as FILE to see it again. Exit code 1 then.\n";
constexpr std::size_t kRoom = (1 << 20) + 16;
constexpr std::size_t kMostKept = 500;
/// Longer than this on one input is a fault, too.
constexpr unsigned kLongestSeconds = 60;

struct FuzzOptions {
  std::uint64_t seconds = 2;
  std::uint64_t seed = 1;
  std::vector<std::string> files;
};

/// What the running process shows to the one that watches it.
struct Shared {
  std::uint64_t executions;
  std::uint64_t kept;
  std::uint64_t size;
  std::uint8_t input[kRoom];
};

bool read_number(const char* text, std::uint64_t& number) {
  const char* end = text + std::strlen(text);
  return text != end && std::from_chars(text, end, number).ptr == end;
}

bool read_options(int argc, char** argv, FuzzOptions& options) {
  if (const char* seconds = std::getenv("TANDEM_FUZZ_SECONDS")) {
    if (!read_number(seconds, options.seconds)) return false;
  }
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool is_seconds = word == "--seconds", is_option = is_seconds || word == "--seed";
    if (is_option && (i + 1 == argc || !read_number(argv[++i], is_seconds ? options.seconds : options.seed)))
      return false;
    if (!is_option && word.starts_with("--")) return false;
    if (!is_option) options.files.push_back(word);
  }
  return true;
}

void run_one(Shared& shared, const std::string& input) {
  shared.size = input.size();
  std::memcpy(shared.input, input.data(), input.size());
  ::alarm(kLongestSeconds);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  ++shared.executions;
}

/// In a process of its own, which a fault ends.
void run_for_a_time(const FuzzOptions& options, Shared& shared) {
  std::vector<std::string> corpus = seeds();
  std::set<std::string> kinds;
  for (const std::string& seed : corpus) run_one(shared, seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  for (std::uint64_t n = 0; std::chrono::steady_clock::now() < end; ++n) {
    const std::string input = mutated(corpus, options.seed, n);
    run_one(shared, input);
    if (corpus.size() < kMostKept && kinds.insert(kind_of(last_outcome())).second) corpus.push_back(input);
  }
  shared.kept = kinds.size();
}

int run_files(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file) return std::fprintf(stderr, "cannot read %s\n", path.c_str()), 2;
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    std::printf("%s: %s\n", path.c_str(), last_outcome().empty() ? "accepted" : last_outcome().c_str());
  }
  return 0;
}

int report_crash(const FuzzOptions& options, const Shared& shared, int status) {
  const std::string path = "crash-" + std::to_string(options.seed) + "-" + std::to_string(shared.executions);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(shared.input), static_cast<std::streamsize>(shared.size));
  std::printf("died after %llu executions (%s %d); the input is %s\n",
              static_cast<unsigned long long>(shared.executions),
              WIFSIGNALED(status) ? "signal" : "exit code",
              WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), path.c_str());
  return 1;
}

int watch(const FuzzOptions& options) {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::fputs("no memory to share\n", stderr), 2;
  Shared& shared = *static_cast<Shared*>(memory);
  const pid_t child = ::fork();
  if (child < 0) return std::fputs("no process to run in\n", stderr), 2;
  if (child == 0) {
    run_for_a_time(options, shared);
    std::exit(0);  // where a sanitizer looks for leaks
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) return report_crash(options, shared, status);
  std::printf("%llu executions in %llu s, %llu inputs kept, seed %llu: no fault\n",
              static_cast<unsigned long long>(shared.executions),
              static_cast<unsigned long long>(options.seconds), static_cast<unsigned long long>(shared.kept),
              static_cast<unsigned long long>(options.seed));
  return shared.executions > 0 ? 0 : 2;
}

}  // namespace
}  // namespace tandem::fuzz

int main(int argc, char** argv) {
  tandem::fuzz::FuzzOptions options;
  if (!tandem::fuzz::read_options(argc, argv, options)) return std::fputs(tandem::fuzz::kUsage, stderr), 2;
  return options.files.empty() ? tandem::fuzz::watch(options) : tandem::fuzz::run_files(options.files);
}
