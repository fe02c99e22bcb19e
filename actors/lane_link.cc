#include <nestor/actors/error.h>
#include <nestor/actors/lane_link.h>

namespace nestor::actors {

void check(const comm::Status& status, std::int32_t lane) {
  const std::string name = "lane" + std::to_string(lane);
  switch (status.code) {
    case comm::Code::ok:
      return;
    case comm::Code::aborted:
    case comm::Code::stale:
      throw Aborted(status.message);
    case comm::Code::deadline:
    case comm::Code::pending:
      throw Error(name, "the step's deadline passed while it waited: " + status.message);
    case comm::Code::peer_lost:
      throw Error(name, "lost a peer: " + status.message);
    case comm::Code::misuse:
      throw Error(name, status.message);
  }
}

}  // namespace nestor::actors
