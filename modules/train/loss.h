#pragma once

#include <cstdint>

#include <nestor/modules/model.h>

namespace nestor::modules {

/// Sum of -log softmax(logits)[label] over all positions whose label is not ignored_label. logits [..., vocabulary],
/// labels [...] of integers. Low-precision logits are summed in float32. Throws Error on shapes that do not fit.
Tensor cross_entropy_sum(const Tensor& logits, const Tensor& labels);

/// The loss over (logits, labels); its count is the samples' count of the input "labels".
Loss token_cross_entropy_of(std::string labels_input);
/// The same for an input named "labels": `model.loss("text", {logits, labels}, token_cross_entropy)`.
inline const Loss token_cross_entropy = token_cross_entropy_of("labels");

/// Sum of squared differences over all elements, divided by the number of elements of one item (dimension 0): a mean
/// per item, summed. Counts samples that have `input`.
Loss mean_squared_error_of(std::string input);

/// Count functions for generators and layer losses.
CountFunction count_of(std::string input);      ///< the sample's count of that input
CountFunction samples_with(std::string input);  ///< 1 where the sample has it

}  // namespace nestor::modules
