#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include <nestor/modules/part.h>

namespace nestor::modules {

struct ParameterOutline {
  std::string name;       ///< in its module, e.g. "llm.layers.0.embedding.weight"
  std::string canonical;  ///< differs from `name` where it is tied
  std::vector<std::int64_t> shape;
  bool trainable = true;
};

/// One factory's module: what plans and placement need to know of it.
struct ModuleOutline {
  std::string name;  ///< canonical, e.g. "llm.layers.3"
  std::string node;  ///< of the model
  std::int32_t layer = 0;
  std::vector<ParameterOutline> parameters;
  std::vector<double> forward_flops;  ///< one per microbatch asked about; 0 where it is absent
  bool trainable() const;
};

/// What a model consists of, without keeping it.
struct Outline {
  std::vector<ModuleOutline> modules;  ///< in node order, layers in order

  /// Modules of one node, in order.
  std::vector<const ModuleOutline*> of(std::string_view node) const;
  bool trainable(std::string_view node) const;
  /// Which of a piece's sources need no gradient (PartOptions::frozen_sources).
  std::vector<std::string> frozen_sources(const Model& model, const PartSpec& spec) const;
  /// By canonical name: the modules that hold it, for each parameter held by more than one.
  std::map<std::string, std::vector<std::string>> tied() const;
};

/// Builds each module once, one at a time, and notes what it is. Throws Error where a tie or a freeze pattern names no
/// parameter, or tied shapes differ.
Outline outline(const Model& model, Seed run, std::span<const Microbatch> microbatches = {});

}  // namespace nestor::modules
