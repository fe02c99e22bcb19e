#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include <nestor/scheduler/completion.h>
#include <nestor/scheduler/error.h>
#include <nestor/scheduler/exchange/torch_csv.h>
#include <nestor/scheduler/recognise.h>

namespace nestor::scheduler {
namespace {

constexpr std::size_t kMostLanes = 1 << 16;

enum class Action { forward, input, weight, full, send_f, recv_f, send_b, recv_b, reduce, skip };

struct Cell {
  Action action = Action::forward;
  std::int32_t stage = 0;
  std::int32_t microbatch = -1;
  std::size_t row = 0, column = 0;  // from 1
};

bool is_compute(Action action) {
  return action <= Action::full;
}

std::optional<Action> action_named(std::string_view name, CsvDialect dialect) {
  const bool legacy = dialect == CsvDialect::torch_legacy;
  if (name == "F") return Action::forward;
  if (name == "W") return Action::weight;
  if (name == "B") return legacy ? Action::input : Action::full;
  if (name == (legacy ? "BW" : "I")) return legacy ? Action::full : Action::input;
  if (name == "SEND_F") return Action::send_f;
  if (name == "RECV_F") return Action::recv_f;
  if (name == "SEND_B") return Action::send_b;
  if (name == "RECV_B") return Action::recv_b;
  if (name == "REDUCE_GRAD") return Action::reduce;
  if (name == "UNSHARD" || name == "RESHARD") return Action::skip;
  return {};
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view source, CsvDialect dialect)
      : text_(text), source_(source), dialect_(dialect) {}

  std::vector<std::vector<Cell>> parse() {
    std::vector<std::vector<Cell>> lanes;
    while (!text_.empty()) {
      const std::size_t end = text_.find('\n');
      std::string_view line = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (lanes.size() == kMostLanes)
        fail(lanes.size() + 1, 1, "is one rank too many", fmt::format("at most {}", kMostLanes));
      lanes.emplace_back();
      for (std::size_t column = 1;; ++column) {
        const std::size_t comma = line.find(',');
        cell(trimmed(line.substr(0, comma)), lanes.size(), column, lanes.back());
        if (comma == std::string_view::npos) break;
        line.remove_prefix(comma + 1);
      }
    }
    while (!lanes.empty() && lanes.back().empty()) lanes.pop_back();
    if (lanes.empty()) fail(1, 1, "the table is empty", "a row for each rank, such as 0F0,0B0");
    return lanes;
  }

  [[noreturn]] void fail(std::size_t row, std::size_t column, const std::string& what, const std::string& hint) const {
    throw Error(fmt::format("{}:{}:{}", source_, row, column), what, hint);
  }
  [[noreturn]] void fail(const Cell& at, const std::string& what, const std::string& hint = "") const {
    fail(at.row, at.column, what, hint);
  }

 private:
  static std::string_view trimmed(std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    return text;
  }

  /// The text of a cell as an error shows it: printable and short.
  static std::string shown(std::string_view text) {
    std::string out;
    for (char c : text.substr(0, 40)) out += c >= 0x20 && c < 0x7f ? c : '?';
    return text.size() > 40 ? out + "..." : out;
  }

  std::int32_t number(std::string_view& text, std::string_view whole, std::size_t row, std::size_t column) const {
    std::int64_t value = 0;
    std::size_t digits = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
      value = value * 10 + (text[digits] - '0');
      if (value > (1 << 28))
        fail(row, column, fmt::format("'{}' has a number too large", shown(whole)), "at most 2^28");
    }
    if (digits == 0) return -1;
    text.remove_prefix(digits);
    return static_cast<std::int32_t>(value);
  }

  void cell(std::string_view text, std::size_t row, std::size_t column, std::vector<Cell>& out) const {
    if (text.empty()) return;  // idle
    constexpr std::string_view kOverlap = ")OVERLAP_F_B";
    if (!text.starts_with('(')) return action(text, row, column, out);
    if (!text.ends_with(kOverlap))
      fail(row, column, fmt::format("'{}' is no action", shown(text)), "two at once look like (0F1;3B0)OVERLAP_F_B");
    const std::string_view inner = text.substr(1, text.size() - 1 - kOverlap.size());
    const std::size_t semicolon = inner.find(';');
    if (semicolon == std::string_view::npos)
      fail(row, column, fmt::format("'{}' overlaps one action with none", shown(text)), "two, parted by ;");
    const std::size_t first = out.size();
    action(trimmed(inner.substr(0, semicolon)), row, column, out);
    action(trimmed(inner.substr(semicolon + 1)), row, column, out);
    const bool backward_second =
        out.size() == first + 2 && (out[first + 1].action == Action::full || out[first + 1].action == Action::input);
    if (out[first].action != Action::forward || !backward_second)
      fail(row, column, fmt::format("'{}' does not overlap a forward with a backward", shown(text)), "");
  }

  void action(std::string_view text, std::size_t row, std::size_t column, std::vector<Cell>& out) const {
    std::string_view rest = text;
    Cell cell;
    cell.row = row;
    cell.column = column;
    cell.stage = number(rest, text, row, column);
    std::size_t letters = 0;
    while (letters < rest.size() && ((rest[letters] >= 'A' && rest[letters] <= 'Z') || rest[letters] == '_')) ++letters;
    const auto found = action_named(rest.substr(0, letters), dialect_);
    rest.remove_prefix(letters);
    cell.microbatch = number(rest, text, row, column);
    const bool whole_stage = found && (*found == Action::reduce || *found == Action::skip);
    if (!found || cell.stage < 0 || !rest.empty() || (cell.microbatch < 0) != whole_stage)
      fail(row, column, fmt::format("'{}' is no action", shown(text)),
           dialect_ == CsvDialect::torch ? "such as 0F1, 0B1, 0I1, 0W1, 0SEND_F1; is it of dialect torch-legacy?"
                                         : "such as 0F1, 0BW1, 0B1, 0W1, 0SEND_F1; is it of dialect torch?");
    cell.action = *found;
    if (cell.action != Action::skip) out.push_back(cell);
  }

  std::string_view text_, source_;
  CsvDialect dialect_;
};

void check(const CsvCosts& costs) {
  for (double cost : {costs.forward, costs.backward, costs.input, costs.weight})
    if (!std::isfinite(cost) || cost < 0)
      throw Error("costs", fmt::format("{} is no time", cost), "seconds, not negative");
  if (std::abs(costs.input + costs.weight - costs.backward) > 1e-9 * std::max(costs.backward, 1e-9))
    throw Error("costs", fmt::format("I {} and W {} do not add up to B {}", costs.input, costs.weight, costs.backward),
                "the halves together are a backward");
}

/// Lane of every stage: the rank that runs it.
std::vector<LaneId> place_stages(const Parser& parser, const std::vector<std::vector<Cell>>& lanes,
                                 std::int32_t& microbatches, bool& trainable) {
  std::int32_t stages = 0;
  std::size_t forwards = 0;
  const Cell* farthest = nullptr;
  const Cell* latest = nullptr;
  for (const auto& lane : lanes)
    for (const Cell& cell : lane) {
      if (!is_compute(cell.action)) continue;
      forwards += cell.action == Action::forward;
      trainable |= cell.action != Action::forward;
      if (cell.stage >= stages) stages = cell.stage + 1, farthest = &cell;
      if (cell.microbatch >= microbatches) microbatches = cell.microbatch + 1, latest = &cell;
    }
  if (!farthest) parser.fail(1, 1, "the table has no compute action", "such as 0F0");
  // Every forward must be there, so this also bounds what a stray large number could make us allocate.
  if (static_cast<std::size_t>(stages) * static_cast<std::size_t>(microbatches) > forwards)
    parser.fail(static_cast<std::size_t>(stages) > forwards ? *farthest : *latest,
                fmt::format("with {} stages and {} microbatches there must be {} forwards, the table has {}", stages,
                            microbatches, static_cast<std::int64_t>(stages) * microbatches, forwards),
                "a row or some cells are missing, or a number is wrong");
  std::vector<LaneId> placed(static_cast<std::size_t>(stages));
  for (std::size_t lane = 0; lane < lanes.size(); ++lane)
    for (const Cell& cell : lanes[lane]) {
      if (!is_compute(cell.action)) continue;
      LaneId& at = placed[static_cast<std::size_t>(cell.stage)];
      const LaneId here{static_cast<std::int64_t>(lane)};
      if (at.valid() && at != here)
        parser.fail(cell, fmt::format("stage {} runs on rank {} already", cell.stage, at.value));
      at = here;
    }
  for (std::size_t stage = 0; stage < placed.size(); ++stage)
    if (!placed[stage].valid())
      parser.fail(*farthest, fmt::format("stage {} runs nowhere", stage), "stages count from 0");
  return placed;
}

Operator row_of(const Parser& parser, const Cell& cell, const std::vector<LaneId>& placed, const CsvCosts& costs) {
  Operator row;
  row.microbatch = cell.microbatch;
  row.stage = cell.stage;
  switch (cell.action) {
    case Action::forward:
      row.kind = OpKind::forward;
      return row;
    case Action::full:
      row.kind = OpKind::backward;
      return row;
    case Action::input:
      row.kind = OpKind::backward_input;
      row.end = costs.input;
      return row;
    case Action::weight:
      row.kind = OpKind::backward_weight;
      row.end = costs.weight;
      return row;
    default:
      break;
  }
  const bool send = cell.action == Action::send_f || cell.action == Action::send_b;
  const bool gradient = cell.action == Action::send_b || cell.action == Action::recv_b;
  // Activations go up the stages, gradients down; a cell names its own end.
  const std::int32_t other = cell.stage + (send != gradient ? 1 : -1);
  if (other < 0 || static_cast<std::size_t>(other) >= placed.size() ||
      static_cast<std::size_t>(cell.stage) >= placed.size())
    parser.fail(cell, fmt::format("stage {} has no stage {} to exchange with", cell.stage, other));
  row.kind = send ? OpKind::send : OpKind::recv;
  row.direction = gradient ? Direction::gradient : Direction::activation;
  row.stage = send ? cell.stage : other;
  row.to_stage = send ? other : cell.stage;
  row.peer = placed[static_cast<std::size_t>(other)].value;
  return row;
}

/// A stage's gradients may be reduced once its last backward has run.
void check_reductions(const Parser& parser, const std::vector<std::vector<Cell>>& lanes) {
  for (const auto& lane : lanes)
    for (std::size_t i = 0; i < lane.size(); ++i) {
      if (lane[i].action != Action::reduce) continue;
      for (std::size_t later = i + 1; later < lane.size(); ++later)
        if (lane[later].stage == lane[i].stage && is_compute(lane[later].action) &&
            lane[later].action != Action::forward)
          parser.fail(lane[i], fmt::format("reduces stage {} before its last backward", lane[i].stage));
    }
}

}  // namespace

CsvDialect parse_csv_dialect(std::string_view name) {
  if (name == "torch") return CsvDialect::torch;
  if (name == "torch-legacy") return CsvDialect::torch_legacy;
  throw Error("dialect", fmt::format("'{}' is unknown", name), "torch or torch-legacy");
}

Plan read_torch_csv(std::string_view text, std::string_view source, CsvDialect dialect, const CsvCosts& costs) {
  check(costs);
  Parser parser(text, source, dialect);
  const auto lanes = parser.parse();
  std::int32_t microbatches = 0;
  bool trainable = false;
  const std::vector<LaneId> placed = place_stages(parser, lanes, microbatches, trainable);
  check_reductions(parser, lanes);

  Plan plan;
  plan.policy = "import";
  plan.custom_backbone = true;
  const auto ranks = static_cast<std::int32_t>(lanes.size()), stages = static_cast<std::int32_t>(placed.size());
  const bool even = stages % ranks == 0;  // else chunks mean nothing: every stage counts as a lane's full share
  plan.workload = make_workload(even ? ranks : stages, even ? stages / ranks : 1, microbatches, 1, 1);
  plan.workload.llm.forward.assign(placed.size(), costs.forward);
  plan.workload.llm.backward.assign(placed.size(), costs.backward);
  plan.workload.llm.lanes = placed;
  plan.workload.llm.trainable = trainable;
  for (const auto& lane : lanes) {
    for (const Cell& cell : lane)
      if (cell.action != Action::reduce) plan.table.operators.push_back(row_of(parser, cell, placed, costs));
    plan.table.lane_begin.push_back(static_cast<std::uint32_t>(plan.table.operators.size()));
  }
  try {
    complete(plan);
  } catch (const Error& error) {
    throw Error(fmt::format("{}:{}", source, error.where()), std::string(error.what()).substr(error.where().size() + 2),
                "");
  }
  recognise_backbone(plan);
  return plan;
}

std::string write_torch_csv(const Plan& plan, CsvDialect dialect, bool transfers) {
  if (!plan.workload.pools.empty())
    throw Error("pool " + plan.workload.pools.front().name, "has no place in a table of torch.distributed.pipelining",
                "only plans of an LLM alone can be written");
  const bool legacy = dialect == CsvDialect::torch_legacy;
  std::string out;
  for (std::int32_t lane = 0; lane < plan.table.lanes(); ++lane) {
    bool first = true;
    for (const Operator& op : plan.table.row(LaneId{lane})) {
      std::string_view name;
      std::int32_t stage = op.stage;
      switch (op.kind) {
        case OpKind::forward:
          name = "F";
          break;
        case OpKind::backward:
          name = legacy ? "BW" : "B";
          break;
        case OpKind::backward_input:
          name = legacy ? "B" : "I";
          break;
        case OpKind::backward_weight:
          name = "W";
          break;
        case OpKind::recompute:
          throw Error("recompute", "has no place in a table of torch.distributed.pipelining", "");
        case OpKind::send:
          name = op.direction == Direction::gradient ? "SEND_B" : "SEND_F";
          break;
        case OpKind::recv:
          name = op.direction == Direction::gradient ? "RECV_B" : "RECV_F";
          stage = op.to_stage;
          break;
        default:
          continue;
      }
      if (op.is_transfer() && !transfers) continue;
      fmt::format_to(std::back_inserter(out), "{}{}{}{}", first ? "" : ",", stage, name, op.microbatch);
      first = false;
    }
    out += "\r\n";
  }
  return out;
}

}  // namespace nestor::scheduler
