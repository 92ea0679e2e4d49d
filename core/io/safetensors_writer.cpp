#include "core/io/safetensors_writer.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/error.hpp"
#include "core/io/descriptor.hpp"
#include "core/io/json.hpp"

namespace tandem {

namespace {

constexpr std::size_t kHeaderAlignment = 8;
constexpr std::int64_t kChunkBytes = 16 << 20;

std::string_view format_word(DType type) {
  switch (type) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    case DType::f64:
      return "F64";
    case DType::i32:
      return "I32";
    case DType::u8:
      return "U8";
    case DType::q4:
      break;
  }
  fail(ErrorCode::invalid_argument, "the safetensors format has no type for {}; write its bytes as u8",
       name(type));
}

/// Length and text of the header, padded with blanks.
std::string header_of(const std::vector<NewTensor>& tensors, const Metadata& metadata,
                      const std::filesystem::path& path) {
  Json header;
  header["__metadata__"] = metadata;
  header["__metadata__"]["format"] = "pt";
  std::int64_t position = 0;
  for (const NewTensor& tensor : tensors) {
    if (header.contains(tensor.name)) {
      fail(ErrorCode::invalid_argument, "{}: two tensors are called {}", path.string(), quote(tensor.name));
    }
    const auto& dims = tensor.shape.dims;
    header[tensor.name] = {{"dtype", format_word(tensor.dtype)},
                           {"shape", std::vector(dims.begin(), dims.begin() + tensor.shape.rank)},
                           {"data_offsets", {position, position + tensor.bytes()}}};
    position += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  std::string length;
  for (std::size_t i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> (8 * i));
  return length + text;
}

/// A new file that is written from front to back.
class Output {
 public:
  explicit Output(const std::filesystem::path& path)
      : path_(path), file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (!file_.is_open()) refuse("create", errno);
  }

  void write(std::span<const std::byte> bytes) {
    if (const int error = write_all(file_.get(), bytes); error != 0) refuse("write", error);
  }
  void finish() {
    if (const int error = sync_and_close(file_); error != 0) refuse("write", error);
  }

 private:
  [[noreturn]] void refuse(const char* action, int error) const {
    fail(ErrorCode::io, "cannot {} '{}': {}", action, path_.string(), reason(error));
  }

  std::filesystem::path path_;
  Descriptor file_;
};

void write_tensor(const NewTensor& tensor, std::vector<std::byte>& chunk, Output& file,
                  const WriteProgress& progress) {
  const auto element = static_cast<std::int64_t>(size_of(tensor.dtype));
  const std::int64_t elements = tensor.shape.elements(), step = kChunkBytes / element;
  for (std::int64_t begin = 0; begin < elements; begin += step) {
    const std::int64_t end = std::min(begin + step, elements);
    const std::int64_t bytes = (end - begin) * element;
    tensor.fill(begin, end, chunk.data());
    file.write(std::span(chunk).first(static_cast<std::size_t>(bytes)));
    if (progress) progress(bytes);
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::vector<NewTensor> tensors,
                       const WriteProgress& progress, const Metadata& metadata) {
  std::ranges::sort(tensors, {}, [](const NewTensor& tensor) {
    return std::tuple(-static_cast<int>(size_of(tensor.dtype)), std::string_view(tensor.name));
  });
  const std::string header = header_of(tensors, metadata, path);
  Output file(path);
  file.write(std::as_bytes(std::span(header)));
  std::vector<std::byte> chunk(kChunkBytes);
  for (const NewTensor& tensor : tensors) write_tensor(tensor, chunk, file, progress);
  file.finish();
}

}  // namespace tandem
