#pragma once

#include <functional>
#include <optional>
#include <string>

#include "graph/model/model.hpp"
#include "tests/gguf/gguf_writer.hpp"

namespace tandem::test {

/// How a model's GGUF file differs from the usual one.
struct TinyGguf {
  std::uint32_t matrix_type = kGgmlBf16;  ///< kGgmlF32, kGgmlBf16, kGgmlQ4_0 or kGgmlQ8_0
  int extra_layers = 0;                   ///< of multi-token prediction, counted in block_count
  bool tokenizer = true;                  ///< as_gguf: that of the shipped model
  /// May replace the values of a tensor of the file, or leave it out.
  std::function<std::optional<std::string>(const std::string& tensor, std::string bytes)> change = {};
};

/// A model as a converter to GGUF writes it: value heads tiled, one added to norms, -exp(A_log); matrices of
/// one type, quantised by core/q4_quantizer if it is Q4_0. Written from the description of the format, apart
/// from what reads it.
GgufWriter as_gguf(const Model& model, const TinyGguf& options);

/// A model with little data: random weights for three Gated DeltaNet layers and one of attention.
std::shared_ptr<const Model> small_model();
/// Its file, with a tokenizer of 64 tokens and one merge, unless there is to be none.
GgufWriter small_gguf(TinyGguf options);

}  // namespace tandem::test
