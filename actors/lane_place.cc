#include <algorithm>
#include <thread>

#include <nestor/actors/error.h>
#include <nestor/actors/lane.h>
#include <nestor/actors/tag.h>
#include <nestor/actors/tensor_buffer.h>
#include <nestor/modules/threads.h>

namespace nestor::actors {
namespace {

using modules::Tensor;
using modules::Tensors;
using Named = modules::Optimizer::Parameters;

Tensor find(const Named& tensors, const std::string& name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const auto& entry) { return entry.first == name; });
  return found == tensors.end() ? Tensor() : found->second;
}

/// What goes from lane to lane for each parameter: its value, then its optimizer state.
Tensors with_state(const std::vector<std::string>& names, const modules::ParameterStore& store, const Named& state) {
  Tensors tensors;
  for (const std::string& name : names) {
    tensors.push_back(store.find(name));
    for (const auto& [key, tensor] : state)
      if (key.size() > name.size() && key.compare(0, name.size(), name) == 0 && key.rfind('.') == name.size())
        tensors.push_back(tensor);
  }
  return tensors;
}

/// In place: modules hold these very tensors.
void copy_into(const Tensors& to, const Tensors& from, const std::string& where) {
  bool fits = to.size() == from.size();
  for (std::size_t i = 0; fits && i < to.size(); ++i)
    fits = to[i].defined() == from[i].defined() && (!to[i].defined() || to[i].sizes() == from[i].sizes());
  if (!fits) throw Error(where, "the state that a peer handed over is not of the parameters expected");
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < to.size(); ++i)
    if (to[i].defined()) Tensor(to[i]).copy_(from[i]);
}

}  // namespace

/// Builds the parts that are new, shares those that stay, carries their moments over.
void Lane::make(const Placement& placement, Holdings& next) const {
  modules::ParameterStore known;
  for (const auto& [name, tensor] : here_.store.entries()) known.share(name, tensor);
  for (const Placement::Piece& piece : placement.pieces) {
    const auto kept = std::find_if(here_.places.begin(), here_.places.end(), [&](const Place& place) {
      return place.piece.node == piece.node && place.piece.stage == piece.stage &&
             place.piece.first_layer == piece.first_layer && place.piece.last_layer == piece.last_layer;
    });
    if (kept != here_.places.end()) {
      next.places.push_back(*kept);
      continue;
    }
    modules::PartOptions options;
    options.dtype = spec_->dtype;
    options.seed = modules::Seed(spec_->seed);
    options.frozen_sources = piece.frozen_sources;
    next.places.push_back({piece, modules::make_part(spec_->model, {piece.node, piece.first_layer, piece.last_layer},
                                                     options, *spec_->dataset, known)});
  }
  Named trainable;
  for (const Place& place : next.places)
    for (const auto& [name, tensor] : place.part->parameters()) {
      const bool first = !next.store.find(name).defined();
      next.store.share(name, tensor);
      if (first && tensor.requires_grad()) trainable.emplace_back(name, tensor);
    }
  next.optimizer = std::make_unique<modules::Optimizer>(spec_->optimizer, trainable);
  for (const auto& [name, tensor] : trainable)
    next.counted.push_back(std::find(placement.owned.begin(), placement.owned.end(), name) != placement.owned.end());
  next.placement = placement;
}

void Lane::stage(const Placement& placement) {
  staged_.reset();
  auto next = std::make_unique<Holdings>();
  make(placement, *next);
  const Named before = here_.optimizer ? here_.optimizer->state() : Named{};
  const Named after = next->optimizer->state();
  for (const auto& [name, moment] : after)
    if (const Tensor old = find(before, name); old.defined()) copy_into({moment}, {old}, this->name());

  comm::Channel& channel = *channel_;
  channel.set_generation(placement.generation);
  const LaneLink peers = link(placement.generation, placement.run, placement.deadline_ms);
  const comm::Key key = peers.key(state_tag());
  for (const auto& [peer, names] : placement.take) check(channel.post_recv(peer, key), lane_);
  for (const auto& [peer, names] : placement.give)
    check(channel.send(peer, key, to_message(with_state(names, here_.store, before)), peers.deadline), lane_);
  for (const auto& [peer, names] : placement.take) {
    comm::Message message;
    check(channel.wait(peer, key, peers.deadline, &message), lane_);
    copy_into(with_state(names, next->store, after), to_tensors(message), this->name());
  }
  staged_ = std::move(next);
}

void Lane::settle(bool commit) {
  if (commit && staged_) {
    dispatch_.reset();
    {
      std::lock_guard lock(program_mutex_);
      program_.reset();
    }
    here_ = std::move(*staged_);
    const auto cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    modules::set_operator_threads(std::max(1, cores / here_.placement.lanes));
    version_ = here_.placement.version;
  }
  staged_.reset();
}

OpDispatch::Place Lane::dispatch_place(const LanePlan& plan, std::int32_t place) const {
  const bool stage = place < plan.model_stages;
  const auto pool = static_cast<std::size_t>(place - plan.model_stages);
  const auto found = std::find_if(here_.places.begin(), here_.places.end(), [&](const Place& here) {
    return stage ? here.piece.stage == place : here.piece.stage < 0 && here.piece.node == plan.pools[pool].name;
  });
  if (found == here_.places.end()) return {};
  OpDispatch::Place result{found->part.get(), {}};
  const auto& own = found->part->sources();
  for (std::int32_t module : sources_of(plan, place)) {
    const std::string& node =
        module == 0 ? spec_->model.llm_node().name : plan.pools[static_cast<std::size_t>(module) - 1].name;
    const auto source = std::find(own.begin(), own.end(), node);
    result.source_map.push_back(source == own.end() ? -1 : static_cast<std::int32_t>(source - own.begin()));
  }
  return result;
}

void Lane::install(LanePlan plan) {
  dispatch_.reset();
  refusal_.clear();
  std::shared_ptr<const LaneProgram> program;
  try {
    auto compiled = std::make_shared<const LaneProgram>(compile(std::move(plan)));
    std::vector<OpDispatch::Place> places;
    const auto count = compiled->plan.model_stages + static_cast<std::int32_t>(compiled->plan.pools.size());
    for (std::int32_t place = 0; place < count; ++place) places.push_back(dispatch_place(compiled->plan, place));
    dispatch_ = std::make_unique<OpDispatch>(*compiled, std::move(places));
    reductions_ = find_reductions(compiled->plan);
    program = std::move(compiled);
  } catch (const Error& error) {
    refusal_ = error.what();
    dispatch_.reset();
  }
  std::lock_guard lock(program_mutex_);
  program_ = std::move(program);
}

/// A parameter on several lanes belongs to the reduction over just these lanes: its pool's if there is one, else the
/// LLM's (tied weights).
std::vector<Named> Lane::find_reductions(const LanePlan& plan) const {
  std::vector<Named> reductions(plan.reductions.size());
  if (!plan.training) return reductions;
  auto lanes_of = [](const scheduler::Reduction& reduction) {
    std::vector<std::int32_t> lanes;
    for (scheduler::LaneId lane : reduction.lanes) lanes.push_back(lane.value);
    return lanes;
  };
  auto in_node = [&](const std::string& node, const std::string& name) {
    return std::any_of(here_.places.begin(), here_.places.end(), [&](const Place& place) {
      return place.piece.node == node && find(place.part->parameters(), name).defined();
    });
  };
  for (const auto& [name, lanes] : here_.placement.shared) {  // by name: all members list the same in the same order
    const Tensor tensor = here_.store.find(name);
    if (!tensor.defined() || !tensor.requires_grad()) continue;
    std::size_t chosen = plan.reductions.size();
    for (std::size_t r = 0; r < plan.reductions.size(); ++r) {
      const std::int32_t module = plan.reductions[r].module.value;
      if (lanes_of(plan.reductions[r]) != lanes) continue;
      if (module == 0) {
        if (chosen == plan.reductions.size()) chosen = r;
      } else if (in_node(plan.pools[static_cast<std::size_t>(module) - 1].name, name)) {
        chosen = r;
        break;
      }
    }
    if (chosen == plan.reductions.size())
      throw Error(this->name(), "refuses the plan: it reduces '" + name + "', which lives on several lanes, nowhere");
    reductions[chosen].emplace_back(name, tensor);
  }
  return reductions;
}

}  // namespace nestor::actors
