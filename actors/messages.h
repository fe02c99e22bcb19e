#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nestor/actors/codec.h>
#include <nestor/scheduler/operator_table.h>

namespace nestor::actors {

/// The control messages between the scheduler actor and executors: plain values, small and few, none per operator.
/// `fields` lists what is written to a wire (codec.h).

/// A pool as the executors need to know it.
struct PoolShape {
  std::string name;
  bool encoder = true;
  std::vector<std::int32_t> inputs;  ///< generators: modules they read, 0 for the LLM
  std::vector<std::uint8_t> absent;  ///< 1 where the microbatch (plan's numbering) has no row of it
  template <class Visit>
  void fields(Visit&& visit) {
    visit(name, encoder, inputs, absent);
  }
};

/// A lane's row of a plan. Sent when the plan changes; kept by the executor under `plan_digest`.
struct LanePlan {
  std::uint64_t plan_digest = 0;
  std::uint64_t row_digest = 0;
  std::int32_t lane = 0;
  bool training = true;  ///< false: forwards alone, for evaluation
  std::int32_t model_stages = 1;
  std::int32_t chunks = 1;
  std::int32_t microbatches = 1;
  std::vector<std::int32_t> microbatch_order;  ///< the batch plan's number of each; empty: unchanged
  std::vector<PoolShape> pools;
  std::vector<std::int32_t> updating;  ///< lanes with an update row: those that agree on the norm
  std::vector<scheduler::Reduction> reductions;
  std::vector<scheduler::Operator> row;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(plan_digest, row_digest, lane, training, model_stages, chunks, microbatches, microbatch_order, pools,
          updating, reductions, row);
  }
};

enum class RunMode : std::uint8_t { train, evaluate };

/// Run step `step` by the plan of this digest. The one message of an ordinary step.
struct RunStep {
  std::uint64_t generation = 0;
  std::uint64_t run = 0;  ///< counts every run of any plan by this job: with the generation, what makes keys unique
  std::int64_t step = 0;
  std::uint64_t plan_digest = 0;
  RunMode mode = RunMode::train;
  std::int64_t samples = 0;      ///< evaluate: how many of the held-out split
  std::int64_t deadline_ms = 0;  ///< a wait that is still going on this long after the message arrived ends the run
  std::int64_t origin_ns = 0;    ///< the step's start on the sender's steady clock: times of the report count from it
  bool trace = false;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(generation, run, step, plan_digest, mode, samples, deadline_ms, origin_ns, trace);
  }
};

/// How a lane's run ended. A lane that failed or was aborted in the norm's exchange is `prepared`: it holds reduced
/// gradients and can still finish the update.
enum class RunEnd : std::uint8_t { done, failed, aborted };

/// When an operator of the row ran; parallel to LanePlan::row. Nanoseconds from the step's origin, by the lane's clock
/// until the scheduler actor has set it right.
struct OpTime {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t wait_ns = 0;  ///< of it, blocked on inputs
  std::int64_t bytes = 0;    ///< transfers
  template <class Visit>
  void fields(Visit&& visit) {
    visit(start_ns, end_ns, wait_ns, bytes);
  }
};

struct LaneReport {
  std::int32_t lane = 0;
  std::uint64_t generation = 0;
  std::uint64_t run = 0;
  RunEnd end = RunEnd::done;
  std::string cause;             ///< failed: what happened, where
  std::uint64_t row_digest = 0;  ///< of the operators that ran, in their order
  bool prepared = false;         ///< the gradients are reduced; nothing is missing for the update but the decision
  bool updated = false;          ///< the decision was made (skipped or not); parameters have the step's version
  double grad_norm = 0;
  double update_scale = 0;  ///< what gradients were multiplied with; 0: skipped
  std::map<std::string, double> loss_sums;
  std::vector<OpTime> times;
  std::vector<double> in_flight;            ///< peak, by module; the LLM's in units of the lane's full share
  std::int64_t began_ns = 0, ended_ns = 0;  ///< of the run, on the lane's steady clock
  template <class Visit>
  void fields(Visit&& visit) {
    visit(lane, generation, run, end, cause, row_digest, prepared, updated, grad_norm, update_scale, loss_sums, times,
          in_flight, began_ns, ended_ns);
  }
};

/// After an aborted run, once every lane has reported: either all finish the update (somebody already had, so all
/// gradients are reduced) or nobody does. Afterwards only messages of `generation` and above are taken.
struct Resolve {
  std::uint64_t generation = 0;
  std::int64_t step = 0;
  std::int64_t version = 0;  ///< steps that the parameters have seen afterwards
  bool finish_update = false;
  double update_scale = 0;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(generation, step, version, finish_update, update_scale);
  }
};

/// What lives on a lane from now on, and who hands whom the state of what moves.
struct Placement {
  struct Piece {
    std::string node;
    std::int32_t stage = -1;  ///< LLM only
    std::int32_t first_layer = 0, last_layer = 0;
    std::vector<std::string> frozen_sources;  ///< nodes whose outputs need no gradient
    friend bool operator==(const Piece&, const Piece&) = default;
    template <class Visit>
    void fields(Visit&& visit) {
      visit(node, stage, first_layer, last_layer, frozen_sources);
    }
  };
  struct Handover {
    std::int32_t peer = 0;
    std::vector<std::string> parameters;
    template <class Visit>
    void fields(Visit&& visit) {
      visit(peer, parameters);
    }
  };
  std::uint64_t generation = 0;
  std::uint64_t run = 0;
  std::int64_t version = 0;  ///< steps that the job's parameters have seen
  std::int64_t deadline_ms = 0;
  std::int32_t lane = 0, lanes = 1;
  std::vector<Piece> pieces;
  std::vector<std::string> owned;  ///< parameters of which it is the lowest lane: it counts their norm, writes them
  std::map<std::string, std::vector<std::int32_t>> shared;  ///< those of its parameters that are on several lanes
  std::vector<Handover> give, take;

  /// The same things in the same places.
  bool same_place(const Placement& other) const {
    return lane == other.lane && lanes == other.lanes && pieces == other.pieces && shared == other.shared;
  }
  template <class Visit>
  void fields(Visit&& visit) {
    visit(generation, run, version, deadline_ms, lane, lanes, pieces, owned, shared, give, take);
  }
};

template <class Tag>
struct Fields<scheduler::Id<Tag>> {
  template <class Visit>
  static void visit(Visit&& visit, scheduler::Id<Tag>& id) {
    visit(id.value);
  }
};
template <>
struct Fields<scheduler::Operator> {
  template <class Visit>
  static void visit(Visit&& visit, scheduler::Operator& op) {
    visit(op.kind, op.direction, op.module, op.to_module, op.microbatch, op.stage, op.to_stage, op.peer, op.start,
          op.end);
  }
};
template <>
struct Fields<scheduler::Reduction> {
  template <class Visit>
  static void visit(Visit&& visit, scheduler::Reduction& reduction) {
    visit(reduction.module, reduction.lanes);
  }
};

}  // namespace nestor::actors
