#include <algorithm>
#include <unordered_map>

#include <nestor/actors/error.h>
#include <nestor/actors/lane_program.h>
#include <nestor/actors/tag.h>
#include <nestor/scheduler/plan.h>

namespace nestor::actors {
namespace {

using scheduler::Direction;
using scheduler::Operator;
using scheduler::OpKind;

/// Where compute operators run, by number: the LLM's stages, then the pools.
class Places {
 public:
  explicit Places(const LanePlan& plan) : plan_(plan) {}
  std::int32_t count() const { return plan_.model_stages + static_cast<std::int32_t>(plan_.pools.size()); }
  std::int32_t of(std::int32_t module, std::int32_t stage) const {
    return module == 0 ? stage : plan_.model_stages + module - 1;
  }
  std::int32_t module(std::int32_t place) const {
    return place < plan_.model_stages ? 0 : place - plan_.model_stages + 1;
  }
  std::int32_t stage(std::int32_t place) const { return place < plan_.model_stages ? place : -1; }
  bool has(std::int32_t place, std::int32_t microbatch) const {
    return place < plan_.model_stages || !pool(place).absent[static_cast<std::size_t>(microbatch)];
  }
  /// Places that read this one's output, in the order in which their gradients are summed.
  std::vector<std::int32_t> readers(std::int32_t place) const {
    std::vector<std::int32_t> readers;
    if (module(place) == 0) {
      if (place + 1 < plan_.model_stages) return {place + 1};
    } else if (pool(place).encoder) {
      readers.push_back(0);
    } else {
      return {};
    }
    for (std::int32_t p = plan_.model_stages; p < count(); ++p) {
      const auto& inputs = pool(p).inputs;
      if (!pool(p).encoder && std::find(inputs.begin(), inputs.end(), module(place)) != inputs.end())
        readers.push_back(p);
    }
    return readers;
  }
  std::vector<std::int32_t> sources(std::int32_t place) const {
    std::vector<std::int32_t> sources;
    if (place == 0) {
      for (std::int32_t p = plan_.model_stages; p < count(); ++p)
        if (pool(p).encoder) sources.push_back(p);
    } else if (place < plan_.model_stages) {
      sources.push_back(place - 1);
    } else if (!pool(place).encoder) {
      for (std::int32_t input : pool(place).inputs)
        sources.push_back(input == 0 ? plan_.model_stages - 1 : of(input, -1));
    }
    return sources;
  }

 private:
  const PoolShape& pool(std::int32_t place) const {
    return plan_.pools[static_cast<std::size_t>(place - plan_.model_stages)];
  }
  const LanePlan& plan_;
};

class Compiler {
 public:
  explicit Compiler(LanePlan plan) : out_{std::move(plan), {}, {}, {}, 0}, places_(out_.plan) {
    for (std::int32_t p = 0; p < places_.count(); ++p) {
      readers_.push_back(places_.readers(p));
      sources_.push_back(places_.sources(p));
    }
  }

  LaneProgram compile() {
    check_sizes();
    const auto& row = out_.plan.row;
    out_.instructions.reserve(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      at_ = i;
      out_.instructions.push_back(read_inputs(row[i]));
    }
    std::vector<std::uint8_t> filled(out_.arrivals.size(), 0);
    stashes_.assign(static_cast<std::size_t>(places_.count()) * static_cast<std::size_t>(out_.plan.microbatches), -1);
    bool updated = false;
    for (std::size_t i = 0; i < row.size(); ++i) {
      at_ = i;
      Instruction& instruction = out_.instructions[i];
      for (std::int32_t slot : out_.inputs(instruction))
        if (slot >= 0 && !filled[static_cast<std::size_t>(slot)])
          refuse("reads what no earlier operator of the row makes");
      if (updated) refuse("comes after the update");
      updated = row[i].kind == OpKind::update;
      write_outputs(instruction, filled);
    }
    scheduler::RowDigest digest;
    for (const Operator& op : row) digest.add(op);
    if (digest.value() != out_.plan.row_digest)
      throw Error(lane(), "the row that arrived is not the one announced", "its digest differs");
    return std::move(out_);
  }

 private:
  std::string lane() const { return "lane" + std::to_string(out_.plan.lane); }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(lane(), "refuses operator " + std::to_string(at_) + " (" + describe(out_.plan.row[at_], out_.plan) +
                            "): it " + what);
  }

  void check_sizes() const {
    const LanePlan& p = out_.plan;
    if (p.model_stages < 1 || p.model_stages >= kMaxStages || p.microbatches < 1 ||
        p.microbatches >= kMaxMicrobatches || p.pools.size() + 1 >= static_cast<std::size_t>(kMaxModules))
      throw Error(lane(), "refuses a plan of " + std::to_string(p.model_stages) + " stages, " +
                              std::to_string(p.microbatches) + " microbatches and " + std::to_string(p.pools.size()) +
                              " pools");
    for (const PoolShape& pool : p.pools)
      if (pool.absent.size() != static_cast<std::size_t>(p.microbatches))
        throw Error(lane(), "refuses a plan: pool " + pool.name + " does not say which microbatches it has");
  }

  std::int32_t place_of(std::int32_t module, std::int32_t stage) const {
    if (module < 0 || module > static_cast<std::int32_t>(out_.plan.pools.size())) refuse("names a module there is not");
    if (module == 0 && (stage < 0 || stage >= out_.plan.model_stages)) refuse("names a stage there is not");
    return places_.of(module, stage);
  }

  std::uint64_t edge(Direction direction, std::int32_t from, std::int32_t to, std::int32_t microbatch) const {
    return edge_tag(direction, places_.module(from), places_.stage(from), places_.module(to), microbatch);
  }

  std::int32_t new_slot(std::uint64_t tag) {
    const auto slot = static_cast<std::int32_t>(out_.arrivals.size());
    if (!by_tag_.emplace(tag, slot).second) refuse("reads what another operator of the row reads");
    out_.arrivals.emplace_back();
    return slot;
  }

  Instruction read_inputs(const Operator& op) {
    Instruction i;
    i.op = op;
    i.inputs = static_cast<std::uint32_t>(out_.slots.size());
    if (op.is_compute() || op.is_transfer())
      if (op.microbatch < 0 || op.microbatch >= out_.plan.microbatches) refuse("names a microbatch there is not");
    switch (op.kind) {
      case OpKind::forward:
        i.place = place_of(op.module, op.stage);
        if (!places_.has(i.place, op.microbatch)) refuse("runs a modality that the microbatch lacks");
        for (std::int32_t source : sources_[static_cast<std::size_t>(i.place)])
          out_.slots.push_back(places_.has(source, op.microbatch)
                                   ? new_slot(edge(Direction::activation, source, i.place, op.microbatch))
                                   : -1);
        break;
      case OpKind::backward:
        i.place = place_of(op.module, op.stage);
        for (std::int32_t reader : readers_[static_cast<std::size_t>(i.place)])
          if (places_.has(reader, op.microbatch))
            out_.slots.push_back(new_slot(edge(Direction::gradient, reader, i.place, op.microbatch)));
        break;
      case OpKind::send:
      case OpKind::recv:
        place_of(op.module, op.stage);
        place_of(op.to_module, op.to_stage);
        i.tag = edge_tag(op.direction, op.module, op.stage, op.to_module, op.microbatch);
        if (op.kind == OpKind::send) out_.slots.push_back(new_slot(i.tag));
        break;
      case OpKind::reduce:
        if (op.reduction < 0 || static_cast<std::size_t>(op.reduction) >= out_.plan.reductions.size())
          refuse("names a reduction there is not");
        break;
      case OpKind::update:
        break;
      case OpKind::backward_input:
      case OpKind::backward_weight:
      case OpKind::recompute:
        refuse("is of a kind that modules do not offer yet; they run whole backwards");
    }
    i.input_count = static_cast<std::uint32_t>(out_.slots.size()) - i.inputs;
    return i;
  }

  /// The slot in which this lane keeps what the edge carries; -1: nobody here reads it.
  std::int32_t fill(std::uint64_t tag, std::vector<std::uint8_t>& filled) {
    const auto found = by_tag_.find(tag);
    if (found == by_tag_.end()) return -1;
    if (filled[static_cast<std::size_t>(found->second)]++) refuse("makes what is there already");
    return found->second;
  }

  void write_outputs(Instruction& i, std::vector<std::uint8_t>& filled) {
    i.outputs = static_cast<std::uint32_t>(out_.slots.size());
    if (i.op.kind == OpKind::forward) {
      for (std::int32_t reader : readers_[static_cast<std::size_t>(i.place)]) {
        const std::int32_t slot = fill(edge(Direction::activation, i.place, reader, i.op.microbatch), filled);
        if (slot >= 0) out_.slots.push_back(slot);
      }
      stash_of(i) = static_cast<std::int32_t>(at_);
    } else if (i.op.kind == OpKind::backward) {
      for (std::int32_t source : sources_[static_cast<std::size_t>(i.place)])
        out_.slots.push_back(fill(edge(Direction::gradient, i.place, source, i.op.microbatch), filled));
      std::int32_t& forward = stash_of(i);
      if (forward < 0) refuse("has no forward before it that is still kept");
      i.stash = out_.instructions[static_cast<std::size_t>(forward)].stash = out_.stash_count++;
      forward = -1;
    } else if (i.op.kind == OpKind::recv) {
      const std::int32_t slot = fill(i.tag, filled);
      if (slot < 0) refuse("receives what no operator of the row reads");
      out_.arrivals[static_cast<std::size_t>(slot)] = {i.op.peer, i.tag, static_cast<std::int32_t>(at_)};
      out_.slots.push_back(slot);
    }
    i.output_count = static_cast<std::uint32_t>(out_.slots.size()) - i.outputs;
  }

  std::int32_t& stash_of(const Instruction& i) {
    return stashes_[static_cast<std::size_t>(i.place) * static_cast<std::size_t>(out_.plan.microbatches) +
                    static_cast<std::size_t>(i.op.microbatch)];
  }

  LaneProgram out_;
  Places places_;
  std::vector<std::vector<std::int32_t>> readers_, sources_;
  std::unordered_map<std::uint64_t, std::int32_t> by_tag_;
  std::vector<std::int32_t> stashes_;  ///< by place and microbatch: the forward that waits for its backward
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::int32_t> sources_of(const LanePlan& plan, std::int32_t place) {
  const Places places(plan);
  std::vector<std::int32_t> modules;
  for (std::int32_t source : places.sources(place)) modules.push_back(places.module(source));
  return modules;
}

LaneProgram compile(LanePlan plan) {
  return Compiler(std::move(plan)).compile();
}

std::string describe(const Operator& op, const LanePlan& plan) {
  auto name = [&](std::int32_t module) {
    const bool known = module > 0 && static_cast<std::size_t>(module) <= plan.pools.size();
    return module == 0 ? std::string("llm") : known ? plan.pools[static_cast<std::size_t>(module) - 1].name : "?";
  };
  std::string text(scheduler::to_string(op.kind));
  if (op.kind == OpKind::update) return text;
  text.append(" ").append(name(op.module));
  if (op.kind == OpKind::reduce) return text;
  if (op.module == 0) text.append(" stage ").append(std::to_string(op.stage));
  if (op.is_transfer()) {
    text.append(" to ").append(name(op.to_module));
    if (op.to_module == 0) text.append(" stage ").append(std::to_string(op.to_stage));
    text.append(" ").append(scheduler::to_string(op.direction));
  }
  return text.append(" microbatch ").append(std::to_string(op.microbatch));
}

}  // namespace nestor::actors
