#include <algorithm>
#include <unordered_map>

#include <nestor/scheduler/document.h>
#include <nestor/scheduler/plan.h>
#include <nestor/scheduler/workload_io.h>

namespace nestor::scheduler {
namespace {

constexpr std::size_t kMaxLanes = 1 << 16;

/// Collects the table's rows while the file is parsed. The workload may stand behind them, so modules are kept as the
/// names' numbers at first and everything that depends on the workload is checked at the end.
class TableReader {
 public:
  explicit TableReader(std::string_view source) : source_(source) {}

  void add(const Node& node, std::size_t lane, std::size_t index) {
    const Field row(node, source_, place(lane, index));
    row.expect_map();
    const OpKind kind = read_kind(row.at("op"));
    Operator op;
    op.kind = kind;
    if (op.is_compute()) {
      read_compute(row, op);
    } else if (op.is_transfer()) {
      read_transfer(row, op);
    } else if (kind == OpKind::reduce) {
      row.expect_keys({"op", "module", "lanes"});
      op.module = name_number(row.at("module"));
      op.reduction = reduction(row, op.module, lane);
    } else {
      row.expect_keys({"op"});
    }
    if (lane_sizes_.size() <= lane) lane_sizes_.resize(lane + 1, 0);
    ++lane_sizes_[lane];
    table_.operators.push_back(op);
  }

  /// `lanes` of the file, whose rows have all been added.
  OperatorTable finish(const Workload& workload, std::size_t lanes) {
    lane_sizes_.resize(lanes, 0);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      table_.lane_begin.push_back(table_.lane_begin.back() + lane_sizes_[lane]);
    }
    std::vector<std::int16_t> module_of(names_.size(), -1);
    for (std::size_t i = 0; i <= workload.pools.size(); ++i) {
      const auto found = numbers_.find(std::string(workload.name(ModuleId{static_cast<std::int64_t>(i)})));
      if (found != numbers_.end()) module_of[found->second] = static_cast<std::int16_t>(i);
    }
    for (std::int32_t lane = 0; lane < table_.lanes(); ++lane) {
      const auto row = table_.row(LaneId{lane});
      for (std::size_t i = 0; i < row.size(); ++i) check(row[i], workload, module_of, place(lane, i));
    }
    for (Reduction& reduction : table_.reductions) reduction.module = ModuleId{module_of[reduction.module.index()]};
    return std::move(table_);
  }

 private:
  static std::string place(std::size_t lane, std::size_t index) {
    return "lanes[" + std::to_string(lane) + "].ops[" + std::to_string(index) + "]";
  }

  static OpKind read_kind(const Field& field) {
    const std::string& name = field.text();
    for (std::uint8_t kind = 0; kind <= static_cast<std::uint8_t>(OpKind::update); ++kind) {
      if (name == to_string(OpKind{kind})) return OpKind{kind};
    }
    field.fail("is no operator", "forward, backward, send, recv, reduce, update, ...");
  }

  std::int16_t name_number(const Field& field) {
    const std::string& name = field.text();
    const auto [entry, is_new] = numbers_.try_emplace(name, static_cast<std::int16_t>(names_.size()));
    if (is_new) {
      if (names_.size() >= 4096) field.fail("is no module of the workload");
      names_.push_back(name);
    }
    return entry->second;
  }

  static void read_times(const Field& row, Operator& op) {
    op.start = row.at("start").number();
    op.end = row.at("end").number();
    if (op.start < 0) row.at("start").fail("is negative");
    if (op.end < op.start) row.at("end").fail("is before start");
  }

  static std::int32_t read_stage(const Field& holder) {
    if (!holder.has("stage")) return -1;
    const std::int32_t stage = holder.at("stage").small_integer();
    if (stage < 0) holder.at("stage").fail("is negative");
    return stage;
  }

  void read_compute(const Field& row, Operator& op) {
    row.expect_keys({"op", "module", "microbatch", "stage", "start", "end"});
    op.module = name_number(row.at("module"));
    op.microbatch = row.at("microbatch").small_integer();
    op.stage = read_stage(row);
    read_times(row, op);
  }

  void read_transfer(const Field& row, Operator& op) {
    row.expect_keys({"op", "from", "to", "direction", "microbatch", "peer", "start", "end"});
    row.at("from").expect_keys({"module", "stage"});
    row.at("to").expect_keys({"module", "stage"});
    op.module = name_number(row.at("from").at("module"));
    op.stage = read_stage(row.at("from"));
    op.to_module = name_number(row.at("to").at("module"));
    op.to_stage = read_stage(row.at("to"));
    const std::string& direction = row.at("direction").text();
    if (direction != "activation" && direction != "gradient") {
      row.at("direction").fail("is neither activation nor gradient");
    }
    op.direction = direction == "gradient" ? Direction::gradient : Direction::activation;
    op.microbatch = row.at("microbatch").small_integer();
    op.peer = row.at("peer").small_integer();
    if (row.has("start") || row.has("end")) read_times(row, op);
  }

  /// Rows of several lanes with one module and one list of lanes are one reduction; a lane's second such row belongs to
  /// the second.
  std::int32_t reduction(const Field& row, std::int16_t module, std::size_t lane) {
    const Field list = row.at("lanes");
    list.expect_list();
    Reduction reduction{ModuleId{module}, {}};
    std::string key = std::to_string(module);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::int32_t member = list.at(i).small_integer();
      if (member < 0 || member >= static_cast<std::int32_t>(kMaxLanes)) list.at(i).fail("is no lane");
      if (i > 0 && member <= reduction.lanes.back().value) list.at(i).fail("is not in ascending order");
      reduction.lanes.emplace_back(member);
      key += ',' + std::to_string(member);
    }
    std::vector<std::int32_t>& same = same_reductions_[key];
    for (const std::int32_t number : same) {
      if (reduction_lane_[number] != lane) {
        reduction_lane_[number] = lane;
        return number;
      }
    }
    same.push_back(static_cast<std::int32_t>(table_.reductions.size()));
    table_.reductions.push_back(std::move(reduction));
    reduction_lane_.push_back(lane);
    return same.back();
  }

  void check_end(std::int16_t& module, std::int32_t stage, const Workload& workload,
                 const std::vector<std::int16_t>& module_of, const std::string& at) const {
    const std::string& name = names_[module];
    module = module_of[module];
    if (module < 0) fail(at, "'" + name.substr(0, 40) + "' is no module of the workload");
    if (module == kLlm.value && stage < 0) fail(at, "has no stage");
    if (module != kLlm.value && stage >= 0) fail(at, "has a stage, and is no row of the llm");
    if (stage >= workload.model_stages()) {
      fail(at, "stage " + std::to_string(stage) + " is none of " + std::to_string(workload.model_stages()));
    }
  }

  void check(Operator& op, const Workload& workload, const std::vector<std::int16_t>& module_of,
             const std::string& at) const {
    if (op.kind == OpKind::update) return;
    if (op.kind == OpKind::reduce) {
      const std::string& name = names_[op.module];
      op.module = module_of[op.module];
      if (op.module < 0) fail(at, "'" + name.substr(0, 40) + "' is no module of the workload");
      for (const LaneId lane : table_.reductions[op.reduction].lanes) {
        if (lane.value >= table_.lanes()) fail(at, "lane " + std::to_string(lane.value) + " is not in the plan");
      }
      return;
    }
    check_end(op.module, op.stage, workload, module_of, at);
    if (op.is_transfer()) {
      check_end(op.to_module, op.to_stage, workload, module_of, at);
      if (op.peer < 0 || op.peer >= table_.lanes()) {
        fail(at, "peer " + std::to_string(op.peer) + " is no lane of the plan");
      }
    }
    if (op.microbatch < 0 || op.microbatch >= workload.microbatches) {
      fail(at, "microbatch " + std::to_string(op.microbatch) + " is none of " + std::to_string(workload.microbatches));
    }
  }

  [[noreturn]] void fail(const std::string& at, const std::string& what) const {
    throw Error(std::string(source_) + ":" + at, what, "");
  }

  std::string_view source_;
  OperatorTable table_;
  std::vector<std::uint32_t> lane_sizes_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int16_t> numbers_;
  std::unordered_map<std::string, std::vector<std::int32_t>> same_reductions_;
  std::vector<std::size_t> reduction_lane_;  ///< by reduction: the lane of its latest row
};

std::size_t read_lane_list(const Field& root, const Workload& workload) {
  const Field lanes = root.at("lanes");
  lanes.expect_list();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Field lane = lanes.at(i);
    lane.expect_keys({"name", "ops"});
    if (lane.has("name")) lane.at("name").text();
    lane.at("ops").expect_list();
  }
  if (lanes.size() < static_cast<std::size_t>(workload.lane_count())) {
    lanes.fail("has " + std::to_string(lanes.size()) + " lanes, the workload needs " +
               std::to_string(workload.lane_count()));
  }
  if (lanes.size() > kMaxLanes) lanes.fail("has more than 65536 lanes");
  return lanes.size();
}

void read_order(const Field& order, Plan& plan) {
  order.expect_list();
  if (order.size() != static_cast<std::size_t>(plan.workload.microbatches)) {
    order.fail("has " + std::to_string(order.size()) + " entries, needs one per microbatch");
  }
  std::vector<std::uint8_t> seen(order.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int32_t m = order.at(i).small_integer();
    if (m < 0 || m >= plan.workload.microbatches || seen[m]++) order.at(i).fail("makes this no permutation");
    plan.microbatch_order.push_back(m);
  }
}

void read_in_flight(const Field& field, Plan& plan) {
  field.expect_map();
  const auto lanes = static_cast<std::size_t>(plan.table.lanes());
  plan.in_flight.assign(plan.workload.pools.size() + 1, std::vector<double>(lanes, 0.0));
  for (const auto& entry : field.node().entries) {
    const Field list = field.at(entry.first);
    std::size_t module = 0;
    while (module < plan.in_flight.size() &&
           plan.workload.name(ModuleId{static_cast<std::int64_t>(module)}) != entry.first) {
      ++module;
    }
    if (module == plan.in_flight.size()) list.fail("is no module of the workload");
    list.expect_list();
    if (list.size() > lanes) list.fail("has more entries than the plan has lanes");
    for (std::size_t lane = 0; lane < list.size(); ++lane) {
      plan.in_flight[module][lane] = list.at(lane).number();
      if (plan.in_flight[module][lane] < 0) list.at(lane).fail("is negative");
    }
  }
}

}  // namespace

Plan read_plan(std::string_view json, std::string_view source) {
  TableReader rows(source);
  const Node tree = parse_json(
      json, source, [&](const Node& row, std::size_t lane, std::size_t index) { rows.add(row, lane, index); });
  const Field root(tree, source);
  root.expect_keys({"format", "policy", "workload", "extra_warmup", "backbone", "makespan", "microbatch_order", "lanes",
                    "in_flight"});
  if (root.at("format").text() != "nestor.plan/1") root.at("format").fail("is not nestor.plan/1");
  Plan plan;
  plan.policy = root.at("policy").text();
  plan.workload = read_workload(root.at("workload"));
  if (root.has("extra_warmup")) plan.extra_warmup = root.at("extra_warmup").small_integer();
  if (plan.extra_warmup < 0) root.at("extra_warmup").fail("is negative");
  if (root.has("backbone")) {
    if (root.at("backbone").text() != "custom") root.at("backbone").fail("is not 'custom'");
    plan.custom_backbone = true;
  }
  plan.makespan = root.at("makespan").number();
  if (plan.makespan < 0) root.at("makespan").fail("is negative");
  plan.table = rows.finish(plan.workload, read_lane_list(root, plan.workload));
  if (root.has("microbatch_order")) read_order(root.at("microbatch_order"), plan);
  if (root.has("in_flight")) read_in_flight(root.at("in_flight"), plan);
  return plan;
}

}  // namespace nestor::scheduler
