#include <stdexcept>

#include <nestor/comm/backends/inproc/fabric.h>
#include <nestor/comm/backends/inproc/lane_channel.h>

namespace nestor::comm {

namespace inproc {

InprocFabric::InprocFabric(std::int32_t lanes) {
  if (lanes < 1) {
    throw std::invalid_argument("inproc fabric: " + std::to_string(lanes) + " lanes (a fabric has at least one)");
  }
  channels_.resize(static_cast<std::size_t>(lanes));
  for (std::int32_t lane = 0; lane < lanes; ++lane) {
    channels_[static_cast<std::size_t>(lane)] = std::make_unique<LaneChannel>(lane, channels_);
  }
}

InprocFabric::~InprocFabric() = default;

Channel& InprocFabric::channel(std::int32_t lane) {
  if (lane < 0 || lane >= lanes()) {
    throw std::out_of_range("inproc fabric: no lane " + std::to_string(lane) + " (lanes are 0 to " +
                            std::to_string(lanes() - 1) + ")");
  }
  return *channels_[static_cast<std::size_t>(lane)];
}

}  // namespace inproc

std::unique_ptr<Fabric> make_inproc_fabric(std::int32_t lanes) {
  return std::make_unique<inproc::InprocFabric>(lanes);
}

}  // namespace nestor::comm
