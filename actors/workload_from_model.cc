#include <algorithm>
#include <numeric>

#include <nestor/actors/error.h>
#include <nestor/actors/workload_from_model.h>
#include <nestor/scheduler/partition.h>

namespace nestor::actors {
namespace {

using modules::Model;
using modules::ModuleOutline;
using modules::Outline;

/// Any rate will do: until something has been measured, only the costs' ratios matter.
constexpr double kFlopsPerSecond = 1e10;
constexpr double kBackwardOverForward = 2;

/// Over the microbatches that have it.
double mean_flops(const ModuleOutline& module) {
  double sum = 0;
  int present = 0;
  for (double flops : module.forward_flops) {
    sum += flops;
    present += flops > 0;
  }
  return std::max(1.0, present == 0 ? 0 : sum / present);
}

std::vector<const Model::Node*> heads(const Model& model) {
  std::vector<const Model::Node*> heads;
  for (const auto& node : model.nodes())
    if (node.kind == Model::Kind::head) heads.push_back(&node);
  return heads;
}

std::vector<scheduler::ModuleId> generator_inputs(const Model& model, const Model::Node& generator) {
  const auto pools = pool_nodes(model);
  std::vector<scheduler::ModuleId> inputs;
  for (modules::Value value : generator.inputs) {
    const auto* source = &model.nodes()[static_cast<std::size_t>(value.node)];
    scheduler::ModuleId id;
    if (source->kind == Model::Kind::llm) id = scheduler::kLlm;
    if (source->kind == Model::Kind::encoder)
      id = scheduler::ModuleId{std::find(pools.begin(), pools.end(), source) - pools.begin() + 1};
    if (id.valid() && std::find(inputs.begin(), inputs.end(), id) == inputs.end()) inputs.push_back(id);
  }
  return inputs;
}

std::vector<std::int32_t> distinct_lanes(const std::vector<scheduler::LaneId>& lanes) {
  std::vector<std::int32_t> distinct;
  for (scheduler::LaneId lane : lanes) distinct.push_back(lane.value);
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  return distinct;
}

void add_names(const ModuleOutline& module, std::vector<std::string>& names) {
  for (const auto& parameter : module.parameters)
    if (std::find(names.begin(), names.end(), parameter.canonical) == names.end()) names.push_back(parameter.canonical);
}

/// Canonical names of the parameters of a piece, each once.
std::vector<std::string> names_of(const Model& model, const Outline& outline, const Placement::Piece& piece) {
  std::vector<std::string> names;
  for (const ModuleOutline* module : outline.of(piece.node))
    if (piece.stage < 0 || (module->layer >= piece.first_layer && module->layer < piece.last_layer))
      add_names(*module, names);
  const auto& llm = model.llm_node();
  if (piece.stage >= 0 && piece.last_layer == static_cast<std::int32_t>(llm.factories.size()))
    for (const Model::Node* head : heads(model))
      for (const ModuleOutline* module : outline.of(head->name)) add_names(*module, names);
  return names;
}

bool trainable(const Outline& outline, const std::string& canonical) {
  for (const auto& module : outline.modules)
    for (const auto& parameter : module.parameters)
      if (parameter.canonical == canonical) return parameter.trainable;
  return false;
}

}  // namespace

ModelCut cut_model(const Model& model, const Outline& outline, const ScheduleOptions& schedule) {
  const auto& llm = model.llm_node();
  std::vector<double> layers;
  for (const ModuleOutline* module : outline.of(llm.name)) layers.push_back(mean_flops(*module));
  double head_cost = 0;
  for (const Model::Node* head : heads(model))
    for (const ModuleOutline* module : outline.of(head->name)) head_cost += mean_flops(*module);

  ModelCut cut;
  const std::int32_t stages = schedule.stages * schedule.chunks;
  cut.first_layer = scheduler::partition_layers(layers, stages, 0, head_cost);
  for (std::int32_t s = 0; s < stages; ++s) {
    const auto first = layers.begin() + cut.first_layer[static_cast<std::size_t>(s)];
    const auto last = layers.begin() + cut.first_layer[static_cast<std::size_t>(s) + 1];
    const double flops = std::accumulate(first, last, s + 1 == stages ? head_cost : 0.0);
    cut.estimate.forward.push_back(flops / kFlopsPerSecond);
  }
  for (const Model::Node* pool : pool_nodes(model)) {
    double flops = 0;
    for (const ModuleOutline* module : outline.of(pool->name)) flops += mean_flops(*module);
    cut.estimate.forward.push_back(flops / kFlopsPerSecond);
  }
  for (double forward : cut.estimate.forward) cut.estimate.backward.push_back(kBackwardOverForward * forward);
  return cut;
}

scheduler::Workload make_workload(const Model& model, const Outline& outline, const ScheduleOptions& schedule,
                                  const StageCosts& costs, const BatchShape& shape, bool forward_only) {
  scheduler::Workload workload = scheduler::make_workload(schedule.stages, schedule.chunks, shape.microbatches, 1, 1);
  auto load = [&](std::size_t module, std::int32_t microbatch) {
    return static_cast<double>(shape.load[module][static_cast<std::size_t>(microbatch)]) / BatchShape::kEven;
  };
  for (std::int32_t m = 0; m < shape.microbatches; ++m) workload.llm.scale[static_cast<std::size_t>(m)] = load(0, m);
  const std::int32_t stages = workload.model_stages();
  workload.llm.forward.assign(costs.forward.begin(), costs.forward.begin() + stages);
  workload.llm.backward.assign(costs.backward.begin(), costs.backward.begin() + stages);
  workload.llm.trainable = outline.trainable(model.llm_node().name);
  for (const Model::Node* head : heads(model)) workload.llm.trainable |= outline.trainable(head->name);
  workload.llm.trainable &= !forward_only;

  const auto pools = pool_nodes(model);
  for (const auto& [name, lanes] : schedule.pools) {
    if (std::none_of(pools.begin(), pools.end(), [&, &n = name](const auto* pool) { return pool->name == n; })) {
      std::string known;
      for (const auto* pool : pools) known += (known.empty() ? "" : ", ") + pool->name;
      throw Error("schedule.pools." + name, "the model has no such encoder or generator",
                  known.empty() ? "it has none" : "it has " + known);
    }
    if (lanes.empty()) throw Error("schedule.pools." + name, "has no members", "name a lane at least");
  }
  for (std::size_t p = 0; p < pools.size(); ++p) {
    const auto kind =
        pools[p]->kind == Model::Kind::encoder ? scheduler::PoolKind::encoder : scheduler::PoolKind::generator;
    const auto place = static_cast<std::size_t>(stages) + p;
    scheduler::PoolWorkload pool =
        scheduler::make_pool(workload, pools[p]->name, kind, costs.forward[place], costs.backward[place]);
    if (const auto members = schedule.pools.find(pools[p]->name); members != schedule.pools.end()) {
      pool.lanes.clear();
      for (std::int32_t lane : members->second) pool.lanes.push_back(scheduler::LaneId{lane});
    }
    for (std::int32_t m = 0; m < shape.microbatches; ++m) {
      const auto at = static_cast<std::size_t>(m);
      pool.owner[at] = m % static_cast<std::int32_t>(pool.lanes.size());
      pool.forward[at] *= load(p + 1, m);
      pool.backward[at] *= load(p + 1, m);
    }
    pool.absent = shape.absent[p];
    pool.trainable = !forward_only && outline.trainable(pools[p]->name);
    if (kind == scheduler::PoolKind::generator) pool.inputs = generator_inputs(model, *pools[p]);
    workload.pools.push_back(std::move(pool));
  }
  return workload;
}

std::vector<Placement> place_model(const Model& model, const Outline& outline, const ModelCut& cut,
                                   const scheduler::Workload& workload) {
  std::vector<Placement> placements(static_cast<std::size_t>(workload.lane_count()));
  auto add = [&](std::int32_t lane, Placement::Piece piece) {
    piece.frozen_sources = outline.frozen_sources(model, {piece.node, piece.first_layer, piece.last_layer});
    placements[static_cast<std::size_t>(lane)].pieces.push_back(std::move(piece));
  };
  for (std::int32_t s = 0; s < workload.model_stages(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    add(workload.llm.lanes[at].value, {model.llm_node().name, s, cut.first_layer[at], cut.first_layer[at + 1], {}});
  }
  for (const auto& pool : workload.pools)
    for (std::int32_t lane : distinct_lanes(pool.lanes)) add(lane, {pool.name, -1, 0, 0, {}});

  std::map<std::string, std::vector<std::int32_t>> lanes_of;
  std::vector<std::string> order;
  for (std::size_t lane = 0; lane < placements.size(); ++lane) {
    placements[lane].lane = static_cast<std::int32_t>(lane);
    placements[lane].lanes = static_cast<std::int32_t>(placements.size());
    for (const auto& piece : placements[lane].pieces)
      for (const std::string& name : names_of(model, outline, piece)) {
        auto& lanes = lanes_of[name];
        if (lanes.empty()) order.push_back(name);
        if (lanes.empty() || lanes.back() != static_cast<std::int32_t>(lane))
          lanes.push_back(static_cast<std::int32_t>(lane));
      }
  }
  for (const std::string& name : order) {
    const auto& lanes = lanes_of[name];
    placements[static_cast<std::size_t>(lanes.front())].owned.push_back(name);
    if (lanes.size() > 1)
      for (std::int32_t lane : lanes) placements[static_cast<std::size_t>(lane)].shared[name] = lanes;
  }
  return placements;
}

std::vector<scheduler::Reduction> tied_reductions(const Model& model, const Outline& outline,
                                                  const std::vector<Placement>& placements,
                                                  const scheduler::Workload& workload) {
  std::vector<scheduler::Reduction> tied;
  for (const Placement& placement : placements)
    for (const auto& [name, lanes] : placement.shared) {
      if (lanes.front() != placement.lane || !trainable(outline, name)) continue;
      const bool pool_reduces_it =
          std::any_of(workload.pools.begin(), workload.pools.end(), [&, &n = name, &l = lanes](const auto& pool) {
            const auto names = names_of(model, outline, {pool.name, -1, 0, 0, {}});
            return distinct_lanes(pool.lanes) == l && std::find(names.begin(), names.end(), n) != names.end();
          });
      if (pool_reduces_it) continue;
      scheduler::Reduction reduction{scheduler::kLlm, {}};
      for (std::int32_t lane : lanes) reduction.lanes.push_back(scheduler::LaneId{lane});
      if (std::none_of(tied.begin(), tied.end(), [&](const auto& t) { return t.lanes == reduction.lanes; }))
        tied.push_back(std::move(reduction));
    }
  return tied;
}

void add_handovers(const std::vector<Placement>& before, std::vector<Placement>& after) {
  std::map<std::string, std::vector<std::int32_t>> had, needed;
  auto collect = [](const std::vector<Placement>& placements, auto& lanes_of) {
    for (const Placement& placement : placements) {
      for (const auto& name : placement.owned) lanes_of.try_emplace(name, std::vector{placement.lane});
      for (const auto& [name, lanes] : placement.shared) lanes_of[name] = lanes;
    }
  };
  collect(before, had);
  collect(after, needed);
  auto hand = [](std::vector<Placement::Handover>& list, std::int32_t peer) -> std::vector<std::string>& {
    for (auto& handover : list)
      if (handover.peer == peer) return handover.parameters;
    return list.emplace_back(Placement::Handover{peer, {}}).parameters;
  };
  for (const auto& [name, lanes] : needed) {
    const auto source = had.find(name);
    if (source == had.end()) continue;
    for (std::int32_t lane : lanes) {
      if (std::find(source->second.begin(), source->second.end(), lane) != source->second.end()) continue;
      const std::int32_t from = source->second.front();
      hand(after[static_cast<std::size_t>(from)].give, lane).push_back(name);
      hand(after[static_cast<std::size_t>(lane)].take, from).push_back(name);
    }
  }
}

}  // namespace nestor::actors
