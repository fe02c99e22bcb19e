#include <stdexcept>

#include <nestor/comm/backends/ucx/fabric.h>
#include <nestor/comm/backends/ucx/lane_channel.h>

namespace nestor::comm {

namespace ucx {

UcxFabric::UcxFabric(std::int32_t lanes, const UcxOptions& options) {
  if (lanes < 1) {
    throw std::invalid_argument("ucx fabric: " + std::to_string(lanes) + " lanes (a fabric has at least one)");
  }
  const auto context = std::make_shared<Context>(options, lanes > 1);
  for (std::int32_t lane = 0; lane < lanes; ++lane) {
    channels_.push_back(std::make_unique<LaneChannel>(lane, lanes, options, context));
  }
  for (std::int32_t lane = 0; lane < lanes; ++lane) {
    for (std::int32_t peer = 0; peer < lanes; ++peer) {
      if (peer == lane) continue;
      channels_[static_cast<std::size_t>(lane)]->set_peer(peer, channels_[static_cast<std::size_t>(peer)]->address());
    }
  }
}

Channel& UcxFabric::channel(std::int32_t lane) {
  if (lane < 0 || lane >= lanes()) {
    throw std::out_of_range("ucx fabric: no lane " + std::to_string(lane) + " (lanes are 0 to " +
                            std::to_string(lanes() - 1) + ")");
  }
  return *channels_[static_cast<std::size_t>(lane)];
}

}  // namespace ucx

std::unique_ptr<UcxChannel> open_ucx_channel(std::int32_t lane, std::int32_t lanes, const UcxOptions& options) {
  if (lanes < 1 || lane < 0 || lane >= lanes) {
    throw std::invalid_argument("ucx: lane " + std::to_string(lane) + " of " + std::to_string(lanes) +
                                " (lanes are 0 to one less than their number)");
  }
  return std::make_unique<ucx::LaneChannel>(lane, lanes, options, std::make_shared<ucx::Context>(options, false));
}

std::unique_ptr<Fabric> make_ucx_fabric(std::int32_t lanes, const UcxOptions& options) {
  return std::make_unique<ucx::UcxFabric>(lanes, options);
}

}  // namespace nestor::comm
