#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/io/gguf.hpp"
#include "core/io/model_config.hpp"
#include "core/random_tensor.hpp"
#include "graph/model/gguf_names.hpp"

namespace tandem {

/// How a weight comes out of a GGUF file.
enum class GgufForm : std::uint8_t {
  in_place,     ///< F32 or BF16 as it lies in the mapping
  reordered,    ///< F32 or BF16, a copy with the value heads in their order again
  restored,     ///< f32, a copy in which the converter's arithmetic is undone
  repacked,     ///< Q4_0 as raw-q4: a copy without loss
  dequantised,  ///< f32: a copy with the exact values
  requantised,  ///< quantised to q4 by us, as was asked for: loses
  rounded       ///< to bf16, as was asked for: loses
};
/// What became of a tensor, for reports: "used in place", "repacked to q4".
std::string_view name(GgufForm form);

/// The weights of a qwen35 GGUF file by their names in the graph, as a Hugging Face checkpoint would have
/// them: what the converter changed is undone.
///
/// - Value heads are in grouped order again: rows move whole, in whatever type, and so do the columns of the
///   output projection where a head is whole blocks (otherwise it is dequantised first). Lossless.
/// - Norm weights are stored as w + 1 in f32. The difference (w + 1) - 1 is exact, so that 1 + w, which is
///   all that a norm computes with it, has the stored bits again. w itself is the checkpoint's unless its
///   last bits were below 2^-24.
/// - The decay is stored as -exp(A_log), which several A_log can give. If the nearest bf16 to log(decay)
/// gives
///   it (to two units in the last place, which implementations of exp differ by), the checkpoint had that;
///   otherwise A_log is the logarithm, computed in double and rounded once, and can be off by what a rounding
///   of the decay is worth.
///
/// Nothing is made before it is asked for. Immutable and safe to use from several threads.
class GgufWeights {
 public:
  GgufWeights(std::shared_ptr<const GgufFile> file, const ModelConfig& config);

  const GgufFile& file() const { return *file_; }

  struct Stored {
    std::string tensor;
    std::string_view type;   ///< GGML's name
    std::int64_t bytes = 0;  ///< in the file
    GgufForm form = GgufForm::in_place;
    DType dtype = DType::f32;  ///< of what load gives: f32, bf16 or q4
    Shape shape;
  };
  /// What load would do. Throws Error(not_found) for a tensor that is not in the file, Error(unsupported) for
  /// a type that cannot be read, Error(mismatch) for a tensor in which the value heads do not fit.
  Stored stored(const std::string& weight, bool keep_q4) const;

  /// The weight. With `keep_q4` a Q4_0 matrix becomes raw-q4 if that is possible without loss; other types
  /// are dequantised, the work divided by `parallel_for`. The file's mapping is kept alive where it is used.
  /// Throws as stored; Error(corrupt) for a decay that is no negative number; Error(out_of_memory).
  HostTensor load(const std::string& weight, bool keep_q4, const ParallelFor& parallel_for) const;
  HostTensor load(const std::string& weight, bool keep_q4) const;

 private:
  struct Heads;
  struct Blocks;

  Heads heads_of(const GgufPlace& place, const GgufTensorInfo& info) const;
  void require_size(const GgufPlace& place, std::string_view what, std::int64_t expected,
                    std::int64_t found) const;
  Blocks reordered(const Blocks& from, const Heads& heads) const;
  void restore(const GgufPlace& place, HostTensor& tensor, float* values) const;

  std::shared_ptr<const GgufFile> file_;
  std::int64_t key_heads_, value_heads_, value_head_dim_, key_rows_;
};

}  // namespace tandem
