#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nestor/actors/job.h>
#include <nestor/modules/data/synthetic.h>

namespace nestor::test {

/// The real layers, as small as they go: every feature of the pipeline, a millisecond each.
struct TinyOptions {
  std::int64_t width = 8;
  int layers = 4;                                    ///< decoder layers; the embedding is one more
  std::vector<std::string> encoders = {"pixels"};    ///< by raw input; the encoder is called "see_INPUT"
  std::vector<std::string> generators = {"target"};  ///< by raw input; the generator is called "draw_INPUT"
  bool generator_sees = false;                       ///< generators also read the first encoder
  bool llm_sees = true;                              ///< the LLM reads the first encoder
  bool tied = false;
  int experts = 0;
  std::vector<std::string> frozen;
  std::int64_t shortest = 3, longest = 9;  ///< words of a sample
};
modules::Model tiny_model(const TinyOptions& options);

/// Texts, and each image input in about half of the samples, or as `presence` says.
std::shared_ptr<const modules::Dataset> tiny_data(
    const TinyOptions& options, double share = 0.5,
    std::function<bool(const modules::Sample&, std::string_view, bool)> presence = {});

/// A float64 job over both. An epsilon that keeps AdamW from blowing rounding up to the size of a step.
actors::JobSpec tiny_job(const TinyOptions& options, std::shared_ptr<const modules::Dataset> data = nullptr);

/// Ids of the samples that `step` draws.
std::set<std::int64_t> ids_of_step(const actors::JobSpec& spec, std::int64_t step);

/// Fails the test where losses differ by more than 1e-10 (relative), or a gradient by more than 1e-10 of the larger of
/// its own maximum and 1e-3 of the model's.
void expect_equal(const actors::StepReport& step, const actors::StepReport& reference);
void expect_equal(const std::map<std::string, torch::Tensor>& gradients,
                  const std::map<std::string, torch::Tensor>& reference);

}  // namespace nestor::test
