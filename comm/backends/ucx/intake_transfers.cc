// What Intake does with offers once they are known: pulls them, and gives them up.
#include <algorithm>
#include <new>
#include <utility>

#include <nestor/comm/backends/ucx/flow.h>
#include <nestor/comm/backends/ucx/intake.h>

namespace nestor::comm::ucx {

// --- transfers ---------------------------------------------------------------------------------------------------

void Intake::chores(Peer& peer) {
  const auto may_run = [&](const Pull& pull) {
    if (peer.by_memory) return peer.running.empty();
    return peer.running.size() < kRunningPulls || peer.running_bytes + pull.length <= kRunningBytes;
  };
  while (!peer.wanted.empty() && may_run(peer.wanted.front())) begin(peer, peer.wanted.front());
  while (!peer.offered.empty() && may_run(peer.offered.front()) &&
         peer.unmatched + cost_of(peer.offered.front().length) <= window_) {
    begin(peer, peer.offered.front());
  }
  if (peer.state != Peer::State::open || peer.failed) return;
  if (std::exchange(peer.owes_pong, false)) endpoints_.note(peer, Note::pong);
  if (std::exchange(peer.owes_taken, false)) {
    peer.told = peer.taken;
    endpoints_.note(peer, Note::taken, peer.taken);
  }
}

void Intake::begin(Peer& peer, Pull& pull) {
  Assembly& target = *pull.assembly;
  const std::size_t cost = cost_of(pull.length);
  if (pull.state == Pull::State::wanted) {
    matched(peer, cost);
  } else {
    target.held += cost;
    peer.unmatched += cost;
  }
  std::list<Pull>& list = pull.state == Pull::State::wanted ? peer.wanted : peer.offered;
  pull.state = Pull::State::running;
  peer.running.splice(peer.running.end(), list, pull.self);
  peer.running_bytes += pull.length;
  try {
    pull.block = pool_->allocate(pull.length);
  } catch (const std::bad_alloc&) {
    ucp_am_data_release(engine_.worker(), std::exchange(pull.offer, nullptr));
    if (!peer.failed) peer.failure = "no memory for " + std::to_string(pull.length) + " bytes from it";
    peer.failed = true;
    engine_.leave_chores();
    finish(pull, false);
    return;
  }
  ucp_request_param_t params;
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.cb.recv_am = on_pulled;
  params.user_data = &pull;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  engine_.began();
  void* request = ucp_am_recv_data_nbx(engine_.worker(), std::exchange(pull.offer, nullptr), pull.block.get(),
                                       pull.length, &params);
  if (UCS_PTR_IS_PTR(request)) return;
  engine_.ended();
  finish(pull, request == nullptr);
}

void Intake::on_pulled(void* request, ucs_status_t status, std::size_t, void* user_data) {
  auto& pull = *static_cast<Pull*>(user_data);
  ucp_request_free(request);
  pull.intake->engine_.ended();
  pull.intake->finish(pull, status == UCS_OK);
}

void Intake::finish(Pull& pull, bool ok) {
  if (pull.state == Pull::State::orphan) {
    orphans_.erase(pull.self);
    return;
  }
  Peer& peer = endpoints_[pull.from];
  Assembly* target = pull.assembly;
  if (target != nullptr) {
    std::erase(target->pulls, &pull);
    if (ok) {
      Buffer& buffer = target->message[pull.part];
      buffer.data = pull.block.get();
      buffer.owner = std::move(pull.block);
    }
  }
  if (!ok && !peer.failed) {  // the message can never be whole: the peer is of no use any more
    peer.failed = true;
    peer.failure = "a transfer from it broke off";
  }
  peer.running_bytes -= pull.length;
  peer.running.erase(pull.self);
  engine_.leave_chores();
  if (target != nullptr && ok) filled(*target);
}

// --- giving up ---------------------------------------------------------------------------------------------------

void Intake::abandon(Assembly& lost, Peer& peer) {
  for (Pull* pull : lost.pulls) {
    pull->assembly = nullptr;
    if (pull->state == Pull::State::running) continue;
    ucp_am_data_release(engine_.worker(), pull->offer);  // the sender's request completes
    (pull->state == Pull::State::wanted ? peer.wanted : peer.offered).erase(pull->self);
  }
  peer.unmatched -= std::min(lost.held, peer.unmatched);
  matched(peer, lost.held);
}

void Intake::forget(Peer& peer) {
  for (auto it = assemblies_.begin(); it != assemblies_.end();) {
    if (it->first.from != peer.lane) {
      ++it;
      continue;
    }
    abandon(*it->second, peer);
    it = assemblies_.erase(it);
  }
  for (Pull& pull : peer.running) pull.state = Pull::State::orphan;
  orphans_.splice(orphans_.end(), peer.running);
  peer.running_bytes = 0;
}

}  // namespace nestor::comm::ucx
