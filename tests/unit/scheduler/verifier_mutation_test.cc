/// Breaks sound plans in every way we could think of. A change that may leave an equally sound plan is not made where
/// it does, and that is known from how the plan is built, never from the verifier's own word.

#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "plan_edit.h"

namespace nestor::scheduler::testing {
namespace {

using Random = std::mt19937_64;

struct Site {
  std::size_t lane = 0, at = 0;
};

/// One plan under the knife.
struct Patient {
  Plan plan;
  Rows rows;
  Random& random;

  std::size_t pick(std::size_t size) { return static_cast<std::size_t>(random() % size); }
  std::optional<Site> find(const std::function<bool(const Operator&)>& wanted) {
    std::vector<Site> sites;
    for (std::size_t lane = 0; lane < rows.size(); ++lane)
      for (std::size_t at = 0; at < rows[lane].size(); ++at)
        if (wanted(rows[lane][at])) sites.push_back({lane, at});
    if (sites.empty()) return {};
    return sites[pick(sites.size())];
  }
  Operator& op(Site site) { return rows[site.lane][site.at]; }
  void erase(Site site) { rows[site.lane].erase(rows[site.lane].begin() + static_cast<std::ptrdiff_t>(site.at)); }
  void insert(std::size_t lane, std::size_t at, const Operator& op) {
    rows[lane].insert(rows[lane].begin() + static_cast<std::ptrdiff_t>(at), op);
  }
  std::optional<Site> mate(Site site) {
    const Operator wanted = op(site);
    return find(
        [&](const Operator& o) { return o.is_transfer() && o.kind != wanted.kind && key_of(o) == key_of(wanted); });
  }
  void move(Site from, std::size_t to) {
    const Operator moved = op(from);
    erase(from);
    insert(from.lane, to > from.at ? to - 1 : to, moved);
  }
};

using Break = std::function<bool(Patient&)>;  ///< false: this plan offers no place for it
struct Mutation {
  const char* name;
  Break apply;
};

bool is_compute(const Operator& op) {
  return op.is_compute();
}
bool is_llm(const Operator& op) {
  return op.module == 0 && (op.kind == OpKind::forward || op.kind == OpKind::backward);
}
bool is_send(const Operator& op) {
  return op.kind == OpKind::send;
}
bool is_recv(const Operator& op) {
  return op.kind == OpKind::recv;
}
bool is_transfer(const Operator& op) {
  return op.is_transfer();
}
bool is_reduce(const Operator& op) {
  return op.kind == OpKind::reduce;
}
bool is_update(const Operator& op) {
  return op.kind == OpKind::update;
}
bool is_input(const Operator& op) {
  return op.kind == OpKind::backward_input;
}
bool is_weight(const Operator& op) {
  return op.kind == OpKind::backward_weight;
}
bool is_recompute(const Operator& op) {
  return op.kind == OpKind::recompute;
}
bool is_backward(const Operator& op) {
  return op.kind == OpKind::backward;
}

Break drop(bool (*what)(const Operator&)) {
  return [=](Patient& p) {
    const auto site = p.find(what);
    if (site) p.erase(*site);
    return site.has_value();
  };
}
Break twice(bool (*what)(const Operator&)) {
  return [=](Patient& p) {
    const auto site = p.find(what);
    if (site) p.insert(site->lane, p.pick(p.rows[site->lane].size() + 1), p.op(*site));
    return site.has_value();
  };
}
Break to_another_lane(bool (*what)(const Operator&)) {
  return [=](Patient& p) {
    const auto site = p.find(what);
    if (!site || p.rows.size() < 2) return false;
    const std::size_t lane = (site->lane + 1 + p.pick(p.rows.size() - 1)) % p.rows.size();
    const Operator moved = p.op(*site);
    p.erase(*site);
    p.insert(lane, p.pick(p.rows[lane].size() + 1), moved);
    return true;
  };
}
Break change(bool (*what)(const Operator&), std::function<bool(Patient&, Operator&)> how) {
  return [=](Patient& p) {
    const auto site = p.find(what);
    return site && how(p, p.op(*site));
  };
}
Break both_ends(std::function<bool(Patient&, Operator&)> how) {
  return [=](Patient& p) {
    const auto send = p.find(is_send);
    if (!send) return false;
    const auto recv = p.mate(*send);
    const Random before = p.random;
    if (!recv || !how(p, p.op(*send))) return false;
    p.random = before;
    return how(p, p.op(*recv));
  };
}
Break of_plan(std::function<bool(Patient&, Plan&)> how) {
  return [=](Patient& p) { return how(p, p.plan); };
}
bool later_microbatch(Patient& p, Operator& op) {
  if (p.plan.workload.microbatches < 2) return false;
  const auto m = static_cast<std::size_t>(p.plan.workload.microbatches);
  op.microbatch = static_cast<std::int32_t>((static_cast<std::size_t>(op.microbatch) + 1 + p.pick(m - 1)) % m);
  return true;
}

std::vector<Mutation> order_mutations() {
  return {
      {"drop a compute row", drop(is_compute)},
      {"run a compute row twice", twice(is_compute)},
      {"move a compute row to another lane", to_another_lane(is_compute)},
      {"swap two LLM rows of a lane with their times",
       [](Patient& p) {
         const auto a = p.find(is_llm);
         if (!a || p.plan.custom_backbone) return false;
         for (std::size_t b = a->at + 1; b < p.rows[a->lane].size(); ++b)
           if (is_llm(p.rows[a->lane][b])) {
             Operator &x = p.op(*a), &y = p.rows[a->lane][b];
             std::swap(x, y);
             std::swap(x.start, y.start);
             std::swap(x.end, y.end);
             return true;
           }
         return false;
       }},
      {"run a backward before its forward",
       [](Patient& p) {
         const auto backward = p.find(is_backward);
         if (!backward) return false;
         const Operator op = p.op(*backward);
         for (std::size_t at = 0; at < backward->at; ++at) {
           const Operator& o = p.rows[backward->lane][at];
           if (o.kind == OpKind::forward && o.module == op.module && o.microbatch == op.microbatch &&
               o.stage == op.stage) {
             p.move(*backward, at);
             return true;
           }
         }
         return false;
       }},
      {"name another microbatch in a compute row", change(is_compute, later_microbatch)},
      {"name a microbatch that the step lacks",
       change(is_compute, [](Patient& p, Operator& op) { return op.microbatch = p.plan.workload.microbatches, true; })},
      {"name a negative microbatch",
       change(is_compute, [](Patient&, Operator& op) { return op.microbatch = -1, true; })},
      {"name another stage", change(is_llm,
                                    [](Patient& p, Operator& op) {
                                      if (p.plan.workload.model_stages() < 2) return false;
                                      return op.stage = (op.stage + 1) % p.plan.workload.model_stages(), true;
                                    })},
      {"name a stage that the LLM lacks",
       change(is_llm, [](Patient& p, Operator& op) { return op.stage = p.plan.workload.model_stages(), true; })},
      {"give a pool row a stage",
       change(is_compute, [](Patient&, Operator& op) { return op.module == 0 ? false : (op.stage = 0, true); })},
      {"name a module that is not there",
       change(is_compute,
              [](Patient& p, Operator& op) {
                return op.module = static_cast<std::int16_t>(p.plan.workload.pools.size() + 1), true;
              })},
      {"make a forward a backward", change(is_compute,
                                           [](Patient&, Operator& op) {
                                             return op.kind == OpKind::forward ? (op.kind = OpKind::backward, true)
                                                                               : false;
                                           })},
      {"make a backward a forward",
       change(is_backward, [](Patient&, Operator& op) { return op.kind = OpKind::forward, true; })},
      {"add a backward with nothing to train",
       [](Patient& p) {
         const auto site = p.find([&](const Operator& o) {
           return o.kind == OpKind::forward &&
                  !p.plan.workload.has_backward(ModuleId{o.module}, MicrobatchId{o.microbatch});
         });
         if (!site) return false;
         Operator op = p.op(*site);
         op.kind = OpKind::backward;
         op.start = op.end;
         p.insert(site->lane, site->at + 1, op);
         return true;
       }},
      {"add a forward of an absent modality",
       [](Patient& p) {
         for (std::size_t i = 0; i < p.plan.workload.pools.size(); ++i) {
           const PoolWorkload& pool = p.plan.workload.pools[i];
           for (std::size_t m = 0; m < pool.absent.size(); ++m)
             if (pool.absent[m]) {
               Operator op;
               op.module = static_cast<std::int16_t>(i + 1);
               op.microbatch = static_cast<std::int32_t>(m);
               p.insert(pool.lanes[static_cast<std::size_t>(pool.owner[m])].index(), 0, op);
               return true;
             }
         }
         return false;
       }},
      {"drop a lane", of_plan([](Patient& p, Plan&) { return p.rows.pop_back(), true; })},
  };
}

std::vector<Mutation> transfer_mutations() {
  return {
      {"drop a send", drop(is_send)},
      {"drop a recv", drop(is_recv)},
      {"drop a pair",
       [](Patient& p) {
         const auto send = p.find(is_send);
         if (!send) return false;
         const auto recv = p.mate(*send);
         p.erase(*recv);
         p.erase(*send);
         return true;
       }},
      {"send twice", twice(is_send)},
      {"receive twice", twice(is_recv)},
      {"send and receive twice",
       [](Patient& p) {
         const auto send = p.find(is_send);
         if (!send) return false;
         const auto recv = p.mate(*send);
         p.insert(recv->lane, recv->at, p.op(*recv));
         p.insert(send->lane, send->at, p.op(*send));
         return true;
       }},
      {"move a transfer to another lane", to_another_lane(is_transfer)},
      {"name another peer", change(is_transfer,
                                   [](Patient& p, Operator& op) {
                                     return op.peer = static_cast<std::int32_t>(
                                                (static_cast<std::size_t>(op.peer) + 1 + p.pick(p.rows.size() - 1)) %
                                                p.rows.size()),
                                            true;
                                   })},
      {"name a peer that is not there",
       change(is_transfer, [](Patient&, Operator& op) { return op.peer = 1 << 20, true; })},
      {"turn the direction of one end", change(is_transfer,
                                               [](Patient&, Operator& op) {
                                                 return op.direction = op.direction == Direction::gradient
                                                                           ? Direction::activation
                                                                           : Direction::gradient,
                                                        true;
                                               })},
      {"turn the direction of both ends", both_ends([](Patient&, Operator& op) {
         return op.direction = op.direction == Direction::gradient ? Direction::activation : Direction::gradient, true;
       })},
      {"make a send a recv", change(is_send, [](Patient&, Operator& op) { return op.kind = OpKind::recv, true; })},
      {"make a recv a send", change(is_recv, [](Patient&, Operator& op) { return op.kind = OpKind::send, true; })},
      {"swap what the two ends do",
       [](Patient& p) {
         const auto send = p.find(is_send);
         if (!send) return false;
         const auto recv = p.mate(*send);
         std::swap(p.op(*send).kind, p.op(*recv).kind);
         return true;
       }},
      {"swap the ends of the edge in both rows", both_ends([](Patient&, Operator& op) {
         std::swap(op.module, op.to_module);
         std::swap(op.stage, op.to_stage);
         return true;
       })},
      {"name another microbatch in one end", change(is_transfer, later_microbatch)},
      {"name another microbatch in both ends", both_ends(later_microbatch)},
      {"name another sending stage",
       change(is_transfer,
              [](Patient& p, Operator& op) {
                return op.module == 0 ? (op.stage = (op.stage + 1) % std::max(2, p.plan.workload.model_stages()), true)
                                      : false;
              })},
      {"name another reading stage",
       change(is_transfer,
              [](Patient& p, Operator& op) {
                return op.to_module == 0
                           ? (op.to_stage = (op.to_stage + 1) % std::max(2, p.plan.workload.model_stages()), true)
                           : false;
              })},
      {"name another module", change(is_transfer,
                                     [](Patient& p, Operator& op) {
                                       return op.to_module = static_cast<std::int16_t>(
                                                  (op.to_module + 1) %
                                                  static_cast<int>(p.plan.workload.pools.size() + 2)),
                                              true;
                                     })},
      {"send before the producer",
       [](Patient& p) {
         const auto send = p.find(is_send);
         if (!send) return false;
         const Operator op = p.op(*send);
         for (std::size_t at = 0; at < send->at; ++at) {
           const Operator& o = p.rows[send->lane][at];
           const bool makes = op.direction == Direction::activation ? o.kind == OpKind::forward
                                                                    : o.kind == OpKind::backward || is_input(o);
           if (makes && o.module == op.module && o.stage == op.stage && o.microbatch == op.microbatch)
             return p.move(*send, at), true;
         }
         return false;
       }},
      {"receive after the reader",
       [](Patient& p) {
         const auto recv = p.find(is_recv);
         if (!recv) return false;
         const Operator op = p.op(*recv);
         for (std::size_t at = recv->at + 1; at < p.rows[recv->lane].size(); ++at) {
           const Operator& o = p.rows[recv->lane][at];
           const bool reads = op.direction == Direction::activation ? o.kind == OpKind::forward
                                                                    : o.kind == OpKind::backward || is_input(o);
           if (reads && o.module == op.to_module && o.stage == op.to_stage && o.microbatch == op.microbatch)
             return p.move(*recv, at + 1), true;
         }
         return false;
       }},
      // Two transfers of one pair of lanes in one order here and in the other there: neither comes to its head.
      {"swap two transfers with one peer",
       [](Patient& p) {
         const auto a = p.find(is_transfer);
         if (!a) return false;
         for (std::size_t b = a->at + 1; b < p.rows[a->lane].size(); ++b)
           if (p.rows[a->lane][b].is_transfer() && p.rows[a->lane][b].peer == p.op(*a).peer)
             return std::swap(p.op(*a), p.rows[a->lane][b]), true;
         return false;
       }},
      // What comes back can only have been made after what went out had arrived.
      {"receive the answer before sending the question",
       [](Patient& p) {
         const auto send = p.find([](const Operator& o) { return is_send(o) && o.direction == Direction::activation; });
         if (!send) return false;
         const Operator op = p.op(*send);
         for (std::size_t b = send->at + 1; b < p.rows[send->lane].size(); ++b) {
           const Operator& o = p.rows[send->lane][b];
           if (is_recv(o) && o.module == op.to_module && o.stage == op.to_stage && o.to_module == op.module &&
               o.to_stage == op.stage && o.microbatch == op.microbatch)
             return p.move({send->lane, b}, send->at), true;
         }
         return false;
       }},
      {"put a transfer behind the end",
       [](Patient& p) {
         const auto site = p.find(is_transfer);
         if (!site) return false;
         return p.move(*site, p.rows[site->lane].size()), true;
       }},
  };
}

std::vector<Mutation> end_mutations() {
  return {
      {"drop a reduce row", drop(is_reduce)},
      {"reduce twice", twice(is_reduce)},
      {"move a reduce row to another lane", to_another_lane(is_reduce)},
      {"drop an update", drop(is_update)},
      {"update twice", twice(is_update)},
      {"move an update to another lane", to_another_lane(is_update)},
      {"update before the last operator",
       [](Patient& p) {
         const auto site = p.find(is_update);
         if (!site || site->at == 0) return false;
         return p.move(*site, p.pick(site->at)), true;
       }},
      {"reduce before the last operator",
       [](Patient& p) {
         const auto site = p.find(is_reduce);
         if (!site) return false;
         std::size_t ends = 0;
         while (!is_reduce(p.rows[site->lane][ends])) ++ends;
         if (ends == 0) return false;
         return p.move(*site, p.pick(ends)), true;
       }},
      {"name another module in a reduce row",
       change(is_reduce, [](Patient&, Operator& op) { return ++op.module, true; })},
      {"name a reduction that is not there",
       change(is_reduce,
              [](Patient& p, Operator& op) {
                return op.reduction = static_cast<std::int32_t>(p.plan.table.reductions.size()), true;
              })},
      {"swap two reductions on one lane of several",
       [](Patient& p) {
         for (auto& row : p.rows)
           for (std::size_t i = 0; i + 1 < row.size(); ++i) {
             if (!is_reduce(row[i]) || !is_reduce(row[i + 1])) continue;
             const auto &a = p.plan.table.reductions[static_cast<std::size_t>(row[i].reduction)].lanes,
                        &b = p.plan.table.reductions[static_cast<std::size_t>(row[i + 1].reduction)].lanes;
             std::vector<LaneId> common;
             std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
             if (common.size() < 2) continue;
             std::swap(row[i], row[i + 1]);
             return true;
           }
         return false;
       }},
      {"leave a lane out of a reduction", of_plan([](Patient& p, Plan& plan) {
         if (plan.table.reductions.empty()) return false;
         auto& lanes = plan.table.reductions[p.pick(plan.table.reductions.size())].lanes;
         return lanes.erase(lanes.begin() + static_cast<std::ptrdiff_t>(p.pick(lanes.size()))), true;
       })},
      {"leave a pool's reduction out", of_plan([](Patient& p, Plan& plan) {
         if (plan.table.reductions.empty()) return false;
         const auto gone = static_cast<std::int32_t>(plan.table.reductions.size()) - 1;
         plan.table.reductions.pop_back();
         for (auto& row : p.rows)
           std::erase_if(row, [&](const Operator& o) { return is_reduce(o) && o.reduction == gone; });
         return true;
       })},
      {"give a reduction unordered lanes", of_plan([](Patient&, Plan& plan) {
         if (plan.table.reductions.empty()) return false;
         auto& lanes = plan.table.reductions.front().lanes;
         return std::swap(lanes.front(), lanes.back()), true;
       })},
      {"give a reduction a lane that is not there", of_plan([](Patient& p, Plan& plan) {
         if (plan.table.reductions.empty()) return false;
         return plan.table.reductions.front().lanes.push_back(LaneId{static_cast<std::int64_t>(p.rows.size())}), true;
       })},
      {"give a reduction no module", of_plan([](Patient&, Plan& plan) {
         if (plan.table.reductions.empty()) return false;
         return plan.table.reductions.front().module = ModuleId{99}, true;
       })},
  };
}

std::vector<Mutation> figure_mutations() {
  return {
      {"state a longer makespan", of_plan([](Patient&, Plan& plan) { return plan.makespan *= 1.01, true; })},
      {"state a shorter makespan", of_plan([](Patient&, Plan& plan) { return plan.makespan *= 0.99, true; })},
      {"state no makespan", of_plan([](Patient&, Plan& plan) { return plan.makespan = 0, true; })},
      {"state a makespan that is no number",
       of_plan([](Patient&, Plan& plan) { return plan.makespan = std::numeric_limits<double>::quiet_NaN(), true; })},
      {"start a row earlier", change(is_compute, [](Patient&, Operator& op) { return op.start -= 0.125, true; })},
      {"end a row later", change(is_compute, [](Patient&, Operator& op) { return op.end += 0.125, true; })},
      {"start at no number",
       change(is_compute,
              [](Patient&, Operator& op) { return op.start = std::numeric_limits<double>::quiet_NaN(), true; })},
      {"end at infinity",
       change(is_compute,
              [](Patient&, Operator& op) { return op.end = std::numeric_limits<double>::infinity(), true; })},
      {"shift a row to the front", change(is_compute,
                                          [](Patient&, Operator& op) {
                                            if (op.start <= 0) return false;
                                            return op.end -= op.start, op.start = 0, true;
                                          })},
      {"idle for a while everywhere", of_plan([](Patient& p, Plan& plan) {
         for (auto& row : p.rows)
           for (Operator& op : row) op.start += 1, op.end += 1;
         return plan.makespan += 1, true;
       })},
      {"state another peak", of_plan([](Patient& p, Plan& plan) {
         auto& lanes = plan.in_flight[p.pick(plan.in_flight.size())];
         return lanes[p.pick(lanes.size())] += p.pick(2) ? 1 : -1, true;
       })},
      {"state peaks of one module too many",
       of_plan([](Patient&, Plan& plan) { return plan.in_flight.push_back({1}), true; })},
      {"state another D", of_plan([](Patient&, Plan& plan) {
         // One more forward up front shows on the last lane, unless all its forwards are there already, or where no
         // backward follows.
         const Workload& w = plan.workload;
         const std::int32_t least = (w.chunks - 1) * w.stages;
         if (plan.custom_backbone || w.microbatches % w.stages != 0 || !w.llm.trainable ||
             least + plan.extra_warmup >= w.microbatches * w.chunks)
           return false;
         return ++plan.extra_warmup, true;
       })},
      {"state a D below zero",
       of_plan([](Patient&, Plan& plan) { return plan.custom_backbone ? false : (plan.extra_warmup = -1, true); })},
      {"cap below the peak", of_plan([](Patient&, Plan& plan) {
         if (plan.workload.pools.empty() || plan.policy == "coupled" || plan.policy == "decoupled") return false;
         const auto& peaks = plan.in_flight[1];
         if (*std::max_element(peaks.begin(), peaks.end()) < 2) return false;
         return plan.workload.pools[0].in_flight_cap = 1, true;
       })},
      {"double a cost of the workload", of_plan([](Patient& p, Plan& plan) {
         return plan.workload.llm.forward[p.pick(plan.workload.llm.forward.size())] *= 2, true;
       })},
      {"freeze a pool that learns", of_plan([](Patient&, Plan& plan) {
         for (auto& pool : plan.workload.pools)
           if (pool.trainable && pool.kind == PoolKind::encoder) return pool.trainable = false, true;
         return false;
       })},
      {"let a frozen LLM learn", of_plan([](Patient&, Plan& plan) {
         return plan.workload.llm.trainable ? false : (plan.workload.llm.trainable = true);
       })},
      {"take a modality away", of_plan([](Patient& p, Plan& plan) {
         for (auto& pool : plan.workload.pools) {
           auto& absent = pool.absent[p.pick(pool.absent.size())];
           if (!absent) return absent = 1, true;
         }
         return false;
       })},
      {"give a microbatch to another member", of_plan([](Patient& p, Plan& plan) {
         for (auto& pool : plan.workload.pools) {
           const std::size_t m = p.pick(pool.owner.size());
           const std::int32_t other = (pool.owner[m] + 1) % static_cast<std::int32_t>(pool.lanes.size());
           if (pool.absent[m] ||
               pool.lanes[static_cast<std::size_t>(other)] == pool.lanes[static_cast<std::size_t>(pool.owner[m])])
             continue;
           return pool.owner[m] = other, true;
         }
         return false;
       })},
      {"renumber two microbatches alike", of_plan([](Patient&, Plan& plan) {
         plan.microbatch_order.resize(static_cast<std::size_t>(plan.workload.microbatches));
         std::iota(plan.microbatch_order.begin(), plan.microbatch_order.end(), 0);
         return plan.microbatch_order.back() = plan.microbatch_order.size() > 1 ? 0 : 1, true;
       })},
      {"give the workload no lanes for its owners", of_plan([](Patient&, Plan& plan) {
         return plan.workload.pools.empty() ? false : (plan.workload.pools[0].owner[0] = 1000, true);
       })},
      {"place a stage elsewhere without saying so", of_plan([](Patient&, Plan& plan) {
         if (plan.workload.stages < 2 || plan.custom_backbone) return false;
         return std::swap(plan.workload.llm.lanes[0], plan.workload.llm.lanes[1]), true;
       })},
  };
}

std::vector<Mutation> half_mutations() {
  return {
      {"drop an input half", drop(is_input)},
      {"drop a weight half", drop(is_weight)},
      {"run an input half twice", twice(is_input)},
      {"run a weight half twice", twice(is_weight)},
      {"make an input half whole",
       change(is_input, [](Patient&, Operator& op) { return op.kind = OpKind::backward, true; })},
      {"make a weight half whole",
       change(is_weight, [](Patient&, Operator& op) { return op.kind = OpKind::backward, true; })},
      {"make a whole backward an input half",
       change(is_backward, [](Patient&, Operator& op) { return op.kind = OpKind::backward_input, true; })},
      {"make a whole backward a weight half",
       change(is_backward, [](Patient&, Operator& op) { return op.kind = OpKind::backward_weight, true; })},
      {"lengthen a half", change(is_weight, [](Patient&, Operator& op) { return op.end += 0.25, true; })},
      {"weight before input",
       [](Patient& p) {
         const auto weight = p.find(is_weight);
         if (!weight) return false;
         for (std::size_t at = 0; at < weight->at; ++at) {
           const Operator &o = p.rows[weight->lane][at], &w = p.op(*weight);
           if (is_input(o) && o.module == w.module && o.microbatch == w.microbatch && o.stage == w.stage)
             return std::swap(p.rows[weight->lane][at], p.op(*weight)), true;
         }
         return false;
       }},
      {"drop a recomputation", drop(is_recompute)},
      {"recompute twice", twice(is_recompute)},
      {"recompute what is kept",
       [](Patient& p) {
         const auto site = p.find(is_backward);
         if (!site || p.plan.workload.llm.recompute) return false;
         Operator again = p.op(*site);
         again.kind = OpKind::recompute;
         return p.insert(site->lane, site->at, again), true;
       }},
      {"recompute after the backward",
       [](Patient& p) {
         const auto again = p.find(is_recompute);
         if (!again) return false;
         for (std::size_t at = again->at + 1; at < p.rows[again->lane].size(); ++at) {
           const Operator &o = p.rows[again->lane][at], &r = p.op(*again);
           if (is_input(o) && o.module == r.module && o.microbatch == r.microbatch && o.stage == r.stage)
             return p.move(*again, at + 1), true;
         }
         return false;
       }},
      {"recompute before the forward",
       [](Patient& p) {
         const auto site = p.find(is_recompute);
         return site ? (p.move(*site, 0), true) : false;
       }},
  };
}

class Mutations : public ::testing::TestWithParam<std::string> {};

TEST_P(Mutations, EveryOneIsCaught) {
  std::vector<Mutation> mutations;
  for (const auto& group :
       {order_mutations(), transfer_mutations(), end_mutations(), figure_mutations(), half_mutations()})
    mutations.insert(mutations.end(), group.begin(), group.end());
  std::vector<Plan> plans;
  for (std::string_view policy : policy_names()) plans.push_back(plan_of(shape(GetParam()), policy));
  plans.push_back(split_plan(GetParam(), false));
  plans.push_back(split_plan(GetParam(), true));
  Random random(7);
  int made = 0;
  for (const Plan& plan : plans) {
    for (Transport transport : {Transport::buffered, Transport::edge, Transport::pair, Transport::single}) {
      const Verdict verdict = verify(plan, transport);
      ASSERT_TRUE(verdict.sound()) << plan.policy << ": " << verdict.faults[0].where << ": " << verdict.faults[0].what;
    }
    for (const Mutation& mutation : mutations)
      for (int attempt = 0; attempt < 8; ++attempt) {
        Patient patient{plan, rows_of(plan), random};
        if (!mutation.apply(patient)) continue;
        put_rows(patient.plan, patient.rows);
        ++made;
        const Verdict verdict = verify(patient.plan);
        ASSERT_FALSE(verdict.sound()) << mutation.name << " went unnoticed in " << plan.policy << " " << GetParam();
        for (const Fault& fault : verdict.faults) {
          ASSERT_FALSE(fault.where.empty());
          ASSERT_EQ(fault.what.find('\n'), std::string::npos);
        }
      }
  }
  RecordProperty("mutations", made);
  std::printf("[ mutants  ] %d of %d caught\n", made, made);
  EXPECT_GT(made, 100);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Mutations, ::testing::ValuesIn(shapes()), [](const auto& info) { return info.param; });

TEST(Mutations, EachFindsAPlace) {
  for (const auto& group :
       {order_mutations(), transfer_mutations(), end_mutations(), figure_mutations(), half_mutations()})
    for (const Mutation& mutation : group) {
      bool applied = false;
      Random random(3);
      for (const std::string& name : shapes())
        for (int kind = 0; kind < 3 && !applied; ++kind) {
          Patient patient{kind ? split_plan(name, kind == 2) : plan_of(shape(name), "nested"), {}, random};
          patient.rows = rows_of(patient.plan);
          applied = mutation.apply(patient);
        }
      EXPECT_TRUE(applied) << mutation.name;
    }
}

/// Transfers put into any legal order: the verdict under every transport is that of the plain model.
TEST(Transports, AgreeWithThePlainModel) {
  Random random(11);
  int hangs[4] = {}, runs = 0;
  for (const std::string& name : shapes())
    for (int attempt = 0; attempt < 12; ++attempt) {
      Plan plan = plan_of(shape(name), attempt % 3 == 0 ? "decoupled" : "nested");
      Rows rows = rows_of(plan);
      // Neighbouring rows change places, where neither needs the other on its lane and none is compute on both sides.
      const int swaps = attempt < 3 ? 1 + attempt : 40;
      for (int k = 0; k < swaps; ++k) {
        auto& row = rows[random() % rows.size()];
        if (row.size() < 2) continue;
        const std::size_t i = random() % (row.size() - 1);
        if (row[i].kind >= OpKind::reduce || row[i + 1].kind >= OpKind::reduce) continue;
        if (!row[i].is_transfer() && !row[i + 1].is_transfer()) continue;
        std::swap(row[i], row[i + 1]);
        Plan trial = plan;
        put_rows(trial, rows);
        const Verdict verdict = verify(trial, Transport::buffered);
        const bool misplaced = !verdict.sound() && verdict.faults[0].what.find("stands") == 0;
        if (misplaced) std::swap(row[i], row[i + 1]);
      }
      put_rows(plan, rows);
      ++runs;
      for (Transport transport : {Transport::buffered, Transport::edge, Transport::pair, Transport::single}) {
        const Verdict verdict = verify(plan, transport);
        const bool expected = runs_through(plan, transport);
        ASSERT_EQ(verdict.sound(), expected)
            << name << " " << to_string(transport) << " " << (verdict.sound() ? "" : verdict.faults[0].what);
        hangs[static_cast<int>(transport)] += !expected;
        if (!expected) {
          EXPECT_NE(verdict.faults[0].what.find("hangs under transport"), std::string::npos);
        }
      }
    }
  // Each transport is stricter than the one before. Even a buffered send hangs behind an operator that waits for its
  // answer.
  EXPECT_GT(hangs[0], 0);
  EXPECT_GT(hangs[1], hangs[0]);
  EXPECT_GE(hangs[2], hangs[1]);
  EXPECT_GE(hangs[3], hangs[2]);
  EXPECT_LT(hangs[3], runs);
}

}  // namespace
}  // namespace nestor::scheduler::testing
