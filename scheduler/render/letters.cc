#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/format.h>

#include <nestor/scheduler/render/letters.h>

namespace nestor::scheduler {
namespace {

char upper(char c) {
  return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
}
char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

}  // namespace

Letters::Letters(const Timeline& timeline) {
  bool split = false, recompute = false, chunks = false, llm = false;
  std::set<std::int32_t> modules;
  for (const TimelineRow& row : timeline.rows) {
    if (!row.op.is_compute()) continue;
    split |= row.op.kind == OpKind::backward_input || row.op.kind == OpKind::backward_weight;
    recompute |= row.op.kind == OpKind::recompute;
    modules.insert(row.op.module);
    if (row.op.module != 0) continue;
    llm = true;
    held_.resize(std::max(held_.size(), static_cast<std::size_t>(row.lane) + 1));
    auto& held = held_[static_cast<std::size_t>(row.lane)];
    const auto at = std::lower_bound(held.begin(), held.end(), row.op.stage);
    if (at == held.end() || *at != row.op.stage) held.insert(at, row.op.stage);
    chunks |= held.size() > 1;
  }
  std::string taken = "fb";
  if (split) taken += "iw";
  if (recompute) taken += "r";
  if (llm) {
    legend_.push_back(split ? "F I W = llm forward, input and weight backward" : "F B = llm forward and backward");
    if (chunks) legend_.back() += split ? " (f i w: chunks after the first)" : " (f b: chunks after the first)";
  }
  letter_.assign(modules.empty() ? 1 : static_cast<std::size_t>(*modules.rbegin()) + 1, 'f');
  for (std::int32_t module : modules) {
    if (module == 0) continue;
    const auto m = static_cast<std::size_t>(module);
    const std::string name =
        m < timeline.module_names.size() ? timeline.module_names[m] : fmt::format("module {}", module);
    const std::string candidates = name + "abcdefghijklmnopqrstuvwxyz";
    const auto free = std::find_if(candidates.begin(), candidates.end(), [&](char c) {
      return std::isalpha(static_cast<unsigned char>(c)) && taken.find(lower(c)) == std::string::npos;
    });
    letter_[m] = free == candidates.end() ? '?' : lower(*free);
    taken += letter_[m];
    legend_.push_back(fmt::format("{} {} = {} forward and backward", letter_[m], upper(letter_[m]), name));
  }
  if (recompute) legend_.push_back("R = recompute");
}

std::int32_t Letters::chunk(std::int32_t lane, std::int32_t stage) const {
  if (static_cast<std::size_t>(lane) >= held_.size()) return 0;
  const auto& held = held_[static_cast<std::size_t>(lane)];
  return static_cast<std::int32_t>(std::lower_bound(held.begin(), held.end(), stage) - held.begin());
}

char Letters::of(const Operator& op, std::int32_t lane) const {
  if (op.kind == OpKind::recompute) return 'R';
  if (op.module != 0) {
    const char letter = letter_[static_cast<std::size_t>(op.module)];
    return op.kind == OpKind::forward ? letter : upper(letter);
  }
  const char letter = op.kind == OpKind::forward           ? 'F'
                      : op.kind == OpKind::backward        ? 'B'
                      : op.kind == OpKind::backward_weight ? 'W'
                                                           : 'I';
  return chunk(lane, op.stage) > 0 ? lower(letter) : letter;
}

char Letters::fill(OpKind kind) {
  switch (kind) {
    case OpKind::forward:
      return '-';
    case OpKind::backward_weight:
      return '~';
    case OpKind::recompute:
      return ':';
    default:
      return '=';
  }
}

}  // namespace nestor::scheduler
