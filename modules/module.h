#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <torch/torch.h>

#include <nestor/modules/batch.h>
#include <nestor/modules/seed.h>

namespace nestor::modules {

/// A loss of its own that a layer adds on the way (a mixture of experts' balance loss): a sum, not yet divided.
struct LossTerm {
  std::string name;
  Tensor sum;  ///< scalar with a graph
};

/// What a module may know of where it runs: the microbatch and the streams of randomness. Nothing of stages or lanes.
struct Context {
  const Microbatch& microbatch;
  Seed seed;                ///< step_seed(run, step); `random` goes on from here
  std::string_view module;  ///< canonical name of the module, e.g. "llm.layers.3"
  bool training = true;     ///< false: dropout and the like are off; losses are still wanted (evaluation)
  bool sampling = false;    ///< true: a generator makes its output instead of its loss sum (training is then false)
  std::vector<LossTerm>* losses = nullptr;

  /// A fresh CPU generator of (seed, step, sample, module, use). Draw on the CPU, then move to the device.
  at::Generator random(const Sample& sample, std::string_view use) const;
  /// Adds to the loss `name`, declared on the model with `Model::layer_loss`.
  void add_loss(std::string_view name, Tensor sum) const {
    if (losses) losses->push_back({std::string(name), std::move(sum)});
  }
};

/// A part of the model: an encoder, one LLM layer, a head or a generator. Several inputs and outputs are ordinary; an
/// undefined input is an absent one. Stateless but for parameters and buffers; called by one thread at a time.
class Module : public torch::nn::Module {
 public:
  virtual Tensors forward(const Tensors& inputs, const Context& context) = 0;
  /// Forward floating-point operations for this microbatch, for plans made before anything was measured. The default
  /// is 2 * parameters * the largest token or image count.
  virtual double forward_flops(const Microbatch& microbatch) const;
};

/// Makes a module from its own seed; called by the lane that will run it, so that a lane builds only its own.
using ModuleFactory = std::function<std::shared_ptr<Module>(Seed)>;

/// Accepts a callable that returns a Module by value or by shared_ptr.
template <class F>
ModuleFactory make_factory(F f) {
  using Result = std::invoke_result_t<F, Seed>;
  if constexpr (std::is_convertible_v<Result, std::shared_ptr<Module>>) {
    return [f](Seed seed) -> std::shared_ptr<Module> { return f(seed); };
  } else {
    static_assert(std::is_base_of_v<Module, Result>, "a factory returns a nestor::Module or a shared_ptr to one");
    return [f](Seed seed) -> std::shared_ptr<Module> { return std::make_shared<Result>(f(seed)); };
  }
}

}  // namespace nestor::modules
