#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include <nestor/scheduler/backbone.h>
#include <nestor/scheduler/completion.h>
#include <nestor/scheduler/describe.h>
#include <nestor/scheduler/document.h>
#include <nestor/scheduler/memory.h>
#include <nestor/scheduler/order_filling.h>
#include <nestor/scheduler/policy_file.h>
#include <nestor/scheduler/recognise.h>
#include <nestor/scheduler/simulator.h>

namespace nestor::scheduler {
namespace {

constexpr std::int32_t kMaxLanes = 1 << 16;

/// One word of a lane's list: a row or, with no microbatch, "..." for the rest of the lane.
struct Word {
  Operator row;
  Field place;
  bool rest = false;
};

std::string quoted(std::string_view word) {
  return "'" + std::string(word.substr(0, 40)) + (word.size() > 40 ? "..." : "") + "'";
}

/// The words of the lanes, with every range written out.
class Words {
 public:
  explicit Words(const Workload& workload) : w_(workload) {}

  std::vector<std::vector<Word>> read(const Field& lanes) {
    lanes.expect_list();
    if (lanes.size() > static_cast<std::size_t>(kMaxLanes)) lanes.fail("has more than 65536 lanes");
    std::vector<std::vector<Word>> out(lanes.size());
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      const Field entry = lanes.at(lane);
      if (entry.node().kind == Node::Kind::null) continue;
      if (!entry.is_list()) {
        split(entry, static_cast<std::int32_t>(lane), out[lane]);
        continue;
      }
      for (std::size_t i = 0; i < entry.size(); ++i) split(entry.at(i), static_cast<std::int32_t>(lane), out[lane]);
    }
    return out;
  }

 private:
  void split(const Field& field, std::int32_t lane, std::vector<Word>& out) {
    std::string_view text = field.text();
    constexpr std::string_view kBlank = " \t\r\n,";
    while (true) {
      text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
      if (text.empty()) return;
      const std::string_view word = text.substr(0, text.find_first_of(kBlank));
      text.remove_prefix(word.size());
      if (word == "...") {
        for (const Word& other : out) {
          if (other.rest) field.fail("has ... twice", "it stands for all that the lane's list does not name");
        }
        out.push_back({{}, field, true});
        continue;
      }
      read(field, word, lane, out);
    }
  }

  [[noreturn]] static void refuse(const Field& field, std::string_view word, const std::string& why) {
    field.fail(quoted(word) + " " + why, "such as F0.2, B0-3.2, I1.0, W1.0, vision:F0, EF0, GB1 or ...");
  }

  void read(const Field& field, std::string_view word, std::int32_t lane, std::vector<Word>& out) {
    std::string_view rest = word;
    Operator row;
    row.module = module(field, word, rest);
    switch (rest.empty() ? '\0' : rest.front()) {
      case 'F':
        row.kind = OpKind::forward;
        break;
      case 'B':
        row.kind = OpKind::backward;
        break;
      case 'I':
        row.kind = OpKind::backward_input;
        break;
      case 'W':
        row.kind = OpKind::backward_weight;
        break;
      case 'R':
        row.kind = OpKind::recompute;
        break;
      default:
        refuse(field, word, "is no operator");
    }
    rest.remove_prefix(1);
    const std::int32_t first = number(field, word, rest, w_.microbatches, "microbatch");
    std::int32_t last = first;
    if (rest.starts_with('-')) {
      rest.remove_prefix(1);
      last = number(field, word, rest, w_.microbatches, "microbatch");
    }
    if (row.module == kLlm.value && rest.starts_with('.')) {
      rest.remove_prefix(1);
      row.stage = number(field, word, rest, w_.model_stages(), "stage");
    } else if (row.module == kLlm.value) {
      row.stage = only_stage(field, word, lane);
    }
    if (!rest.empty()) refuse(field, word, "is no operator");
    for (std::int32_t m = first;; m += first < last ? 1 : -1) {
      row.microbatch = m;
      out.push_back({row, field});
      if (++count_ > 4 * w_.microbatches * (std::int64_t{w_.model_stages()} + std::ssize(w_.pools)))
        field.fail("names more operators than the workload has");
      if (m == last) break;
    }
  }

  std::int32_t number(const Field& field, std::string_view word, std::string_view& rest, std::int32_t count,
                      const char* what) const {
    std::int32_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc{} || rest.front() == '-') refuse(field, word, std::string("has no number for its ") + what);
    if (value >= count) refuse(field, word, fmt::format("names {} {}, there are 0 to {}", what, value, count - 1));
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return value;
  }

  /// Takes the module off `rest`: "name:", or E and G for the only encoder and the only generator.
  std::int16_t module(const Field& field, std::string_view word, std::string_view& rest) const {
    if (const std::size_t colon = rest.rfind(':'); colon != std::string_view::npos) {
      const std::string_view name = rest.substr(0, colon);
      rest.remove_prefix(colon + 1);
      for (std::size_t i = 0; i <= w_.pools.size(); ++i) {
        if (w_.name(ModuleId{static_cast<std::int64_t>(i)}) == name) return static_cast<std::int16_t>(i);
      }
      refuse(field, word, "names no module of the workload");
    }
    if (!rest.starts_with('E') && !rest.starts_with('G')) return 0;
    const PoolKind kind = rest.front() == 'E' ? PoolKind::encoder : PoolKind::generator;
    std::int16_t found = 0;
    for (std::size_t i = 0; i < w_.pools.size(); ++i) {
      if (w_.pools[i].kind != kind) continue;
      if (found > 0) refuse(field, word, "could be of several modules: name it, as in vision:F0");
      found = static_cast<std::int16_t>(i + 1);
    }
    if (found == 0) refuse(field, word, "is of a kind of module that the workload lacks");
    rest.remove_prefix(1);
    return found;
  }

  std::int32_t only_stage(const Field& field, std::string_view word, std::int32_t lane) const {
    std::int32_t stage = -1;
    for (std::int32_t s = 0; s < w_.model_stages(); ++s) {
      if (w_.llm.lanes[static_cast<std::size_t>(s)].value != lane) continue;
      if (stage >= 0) refuse(field, word, "needs a stage: several live on this lane");
      stage = s;
    }
    if (stage < 0) refuse(field, word, "needs a stage: the workload has none on this lane");
    return stage;
  }

  const Workload& w_;
  std::int64_t count_ = 0;
};

/// Stages and pool members move to the lanes that name them.
void place(Workload& workload, const std::vector<std::vector<Word>>& lanes) {
  std::vector<std::int32_t> stage_lane(static_cast<std::size_t>(workload.model_stages()), -1);
  std::vector<std::vector<std::int32_t>> owner_lane(workload.pools.size());
  for (auto& owners : owner_lane) owners.assign(static_cast<std::size_t>(workload.microbatches), -1);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const auto here = static_cast<std::int32_t>(lane);
    for (const Word& word : lanes[lane]) {
      if (word.rest) continue;
      const Operator& row = word.row;
      std::int32_t& at = row.module == kLlm.value ? stage_lane[row.stage] : owner_lane[row.module - 1][row.microbatch];
      if (at >= 0 && at != here) {
        word.place.fail(fmt::format("'{}' runs here, but on lane {} too", describe(workload, row), at),
                        row.module == kLlm.value ? "a stage lives on one lane" : "a microbatch has one pool member");
      }
      at = here;
    }
  }
  for (std::size_t s = 0; s < stage_lane.size(); ++s) {
    if (stage_lane[s] >= 0) workload.llm.lanes[s] = LaneId{stage_lane[s]};
  }
  for (std::size_t p = 0; p < workload.pools.size(); ++p) {
    PoolWorkload& pool = workload.pools[p];
    for (std::size_t m = 0; m < owner_lane[p].size(); ++m) {
      if (owner_lane[p][m] < 0 || pool.lanes[pool.owner[m]].value == owner_lane[p][m]) continue;
      const auto member = std::find(pool.lanes.begin(), pool.lanes.end(), LaneId{owner_lane[p][m]});
      pool.owner[m] = static_cast<std::int32_t>(member - pool.lanes.begin());
      if (member == pool.lanes.end()) pool.lanes.emplace_back(owner_lane[p][m]);
    }
  }
}

/// The rows of every lane, with `...` written out; `words` gives the place of each.
struct Given {
  std::vector<std::vector<GivenRow>> rows;
  std::vector<std::vector<const Word*>> words;  ///< null: from a lane that the file does not list
};

class Resolver {
 public:
  Resolver(const Workload& workload, const Dependencies& d, const std::vector<std::vector<Word>>& lanes)
      : w_(workload), d_(d), lanes_(lanes) {}

  Given run() {
    seen_.assign(static_cast<std::size_t>(d_.size()) * kKinds, nullptr);
    for (const auto& lane : lanes_) {
      for (const Word& word : lane) {
        if (!word.rest) note(word);
      }
    }
    const auto lanes = static_cast<std::size_t>(d_.lanes());
    given_.rows.resize(lanes);
    given_.words.resize(lanes);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if (lane >= lanes_.size()) {
        rest(lane, nullptr);
        continue;
      }
      for (const Word& word : lanes_[lane]) {
        if (word.rest) {
          rest(lane, &word);
        } else {
          add(lane, word.row, operator_of(word.row), &word);
        }
      }
    }
    return std::move(given_);
  }

 private:
  static constexpr std::size_t kKinds = static_cast<std::size_t>(OpKind::recompute) + 1;

  OperatorId operator_of(Operator row) const {
    if (row.kind != OpKind::forward) row.kind = OpKind::backward;
    return d_.find(row);
  }

  const Word*& seen(OperatorId op, OpKind kind) { return seen_[op.index() * kKinds + static_cast<std::size_t>(kind)]; }

  void note(const Word& word) {
    const OperatorId op = operator_of(word.row);
    if (!op.valid()) {
      word.place.fail(fmt::format("'{}' does not exist in this workload", describe(w_, word.row)),
                      "the microbatch lacks the modality, or there is nothing to train");
    }
    const Word*& first = seen(op, word.row.kind);
    const Word* halves = word.row.kind == OpKind::backward ? seen(op, OpKind::backward_input) : nullptr;
    if (word.row.kind == OpKind::backward_input || word.row.kind == OpKind::backward_weight)
      halves = seen(op, OpKind::backward);
    if (first || halves) {
      word.place.fail(fmt::format("'{}' stands twice", describe(w_, word.row)),
                      fmt::format("the first at line {}", (first ? first : halves)->place.node().line));
    }
    if (word.row.kind == OpKind::recompute && !d_.module_recomputes(ModuleId{word.row.module})) {
      word.place.fail(fmt::format("'{}' recomputes a module whose activations are kept", describe(w_, word.row)),
                      "set recompute: true in the workload");
    }
    first = &word;
  }

  bool is_named(OperatorId op) {
    return seen(op, OpKind::forward) || seen(op, OpKind::backward) || seen(op, OpKind::backward_input) ||
           seen(op, OpKind::backward_weight);
  }

  void add(std::size_t lane, const Operator& row, OperatorId op, const Word* word) {
    const bool begins = row.kind == OpKind::backward || row.kind == OpKind::backward_input;
    if (begins && d_.module_recomputes(d_.module(op)) && !seen(op, OpKind::recompute)) {
      Operator again = row;
      again.kind = OpKind::recompute;
      push(lane, {again, op}, word);
    }
    push(lane, {row, op}, word);
  }

  void push(std::size_t lane, const GivenRow& row, const Word* word) {
    given_.rows[lane].push_back(row);
    given_.words[lane].push_back(word);
  }

  /// What the file names nowhere of the LLM's operators of a lane, in the backbone's order.
  void rest(std::size_t lane, const Word* word) {
    if (backbone_.lane_begin.size() == 1) backbone_ = backbone(d_, w_, 0);
    for (const OperatorId op : backbone_.lane(LaneId{static_cast<std::int64_t>(lane)})) {
      if (!is_named(op)) add(lane, d_.row(op), op, word);
    }
  }

  const Workload& w_;
  const Dependencies& d_;
  const std::vector<std::vector<Word>>& lanes_;
  std::vector<const Word*> seen_;  ///< by operator and kind
  LaneOrders backbone_;
  Given given_;
};

void require_all(const Workload& w, const Dependencies& d, const Given& given, const Field& lanes) {
  std::vector<std::uint8_t> whole(static_cast<std::size_t>(d.size()), 0);
  for (const auto& lane : given.rows) {
    for (const GivenRow& row : lane) {
      std::uint8_t& parts = whole[row.op.index()];
      if (row.row.kind == OpKind::forward || row.row.kind == OpKind::backward) parts = 3;
      if (row.row.kind == OpKind::backward_input) parts |= 1;
      if (row.row.kind == OpKind::backward_weight) parts |= 2;
    }
  }
  for (std::int32_t i = 0; i < d.size(); ++i) {
    const OperatorId op{i};
    const std::uint8_t parts = whole[op.index()];
    if (!d.exists(op) || parts == 3 || (parts == 0 && d.module(op) != kLlm)) continue;
    const std::size_t lane = d.lane(op).index();
    const Field place = lane < lanes.size() ? lanes.at(lane) : lanes;
    const char* half = parts == 1 ? "the weight half of " : parts == 2 ? "the input half of " : "";
    place.fail(fmt::format("lacks {}'{}'", half, describe(w, d.row(op))),
               parts == 0 ? "end the lane with ... for the rest in the backbone's order" : "I and W go together");
  }
}

void require_end(const Workload& w, const Dependencies& d, const Given& given, const Stuck& stuck, const Field& lanes) {
  if (stuck.lane < 0) return;
  const auto lane = static_cast<std::size_t>(stuck.lane);
  const GivenRow& row = given.rows[lane][stuck.row];
  const Word* word = given.words[lane][stuck.row];
  const std::string what = stuck.waits_for.valid()
                               ? fmt::format("'{}', which lane {} never gets to", describe(w, d.row(stuck.waits_for)),
                                             d.lane(stuck.waits_for).value)
                               : "a part of its own that stands later";
  (word ? word->place : lanes)
      .fail(fmt::format("'{}' on lane {} waits for ever for {}", describe(w, row.row), lane, what),
            "the lanes' orders wait for each other in a circle");
}

}  // namespace

Plan read_policy(const Workload& workload, std::string_view text, std::string_view source) {
  validate(workload, "workload");
  const Node tree = parse_document(text, source);
  const Field root(tree, source);
  root.expect_keys({"format", "name", "lanes"});
  if (root.at("format").text() != "nestor.policy/1") root.at("format").fail("is not nestor.policy/1");
  Plan plan;
  plan.policy = root.has("name") ? root.at("name").text() : "custom";
  if (plan.policy == "coupled" || plan.policy == "decoupled" || plan.policy.empty() || plan.policy.size() > 200)
    root.at("name").fail("is no name for a policy of one's own");
  plan.workload = workload;
  const Field lanes = root.at("lanes");
  const auto words = Words(workload).read(lanes);
  place(plan.workload, words);
  try {
    validate(plan.workload, "workload");
  } catch (const Error& error) {
    lanes.fail(std::string("places the workload so that ") + error.what());
  }
  const Dependencies d(plan.workload);
  Given given = Resolver(plan.workload, d, words).run();
  require_all(plan.workload, d, given, lanes);
  auto complete_rows = given.rows;
  require_end(plan.workload, d, given, fill_orders(plan.workload, d, complete_rows), lanes);
  for (const auto& lane : complete_rows) {
    for (const GivenRow& row : lane) plan.table.operators.push_back(row.row);
    plan.table.lane_begin.push_back(static_cast<std::uint32_t>(plan.table.operators.size()));
  }
  while (plan.table.lanes() < workload.lane_count()) plan.table.lane_begin.push_back(plan.table.lane_begin.back());
  plan.custom_backbone = true;
  try {
    complete(plan);
  } catch (const Error& error) {
    lanes.fail(error.what());
  }
  recognise_backbone(plan);
  // What the user named may need more in flight than the workload's cap: the plan states what it does.
  for (std::size_t p = 0; p < plan.workload.pools.size(); ++p) {
    auto& cap = plan.workload.pools[p].in_flight_cap;
    const auto& peaks = plan.in_flight[p + 1];
    const auto peak = static_cast<std::int32_t>(*std::max_element(peaks.begin(), peaks.end()));
    if (cap && peak > *cap) cap = peak;
  }
  if (plan.workload.memory_bytes_per_lane == 0) return plan;
  const Simulation simulation = simulate(plan);
  for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
    const LaneReport& report = simulation.lanes[lane];
    if (report.over_memory)
      throw MemoryError(plan.workload, plan.policy, LaneId{static_cast<std::int64_t>(lane)}, report.peak_bytes,
                        report.over_at);
  }
  return plan;
}

}  // namespace nestor::scheduler
