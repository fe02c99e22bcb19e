#pragma once

#include <string>
#include <vector>

#include <nestor/modules/layers/basic.h>
#include <nestor/modules/module.h>

namespace nestor::modules {

/// Where an encoder's output goes in the text.
struct Splice {
  std::int64_t token = -1;       ///< the placeholder's id in the vocabulary
  std::string input = "pixels";  ///< the encoder's raw input: only samples that have it are spliced
};

struct EmbeddingOptions {
  std::int64_t vocabulary = 0;
  std::int64_t width = 64;
  std::vector<Splice> splices;  ///< one per encoder, in the order of the module's inputs
};

/// The LLM's first layer: rows of the embedding, with image embeddings in the places of the placeholder tokens.
/// Inputs: tokens [samples, length] (integers, padded on the right), then per splice an encoder's output
/// [images, patches, width] or none. Outputs: [samples, length, width].
/// Placeholders of samples that have the splice's input take the encoder's rows in order; those of other samples keep
/// the placeholder's own embedding. Encoders of one placeholder and one input stand side by side for each image: the
/// patches of the first, then those of the second. Parameters: weight [vocabulary, width].
/// Throws Error where placeholders and image embeddings differ in number.
class TokenEmbedding : public Module {
 public:
  TokenEmbedding(const EmbeddingOptions& options, const Seed& seed);
  Tensors forward(const Tensors& inputs, const Context& context) override;
  /// None to speak of: rows are copied, counted as an addition each.
  double forward_flops(const Microbatch& microbatch) const override;

 private:
  Tensor splice(const Tensor& embedded, const Tensor& tokens, const Splice& where, const Tensor& rows,
                const Context& context) const;

  EmbeddingOptions options_;
  Tensor weight_;
};

}  // namespace nestor::modules
