#pragma once

#include <memory>
#include <vector>

#include <nestor/comm/channel.h>

namespace nestor::comm::inproc {

class LaneChannel;

/// The lanes of one process. A message is handed over by moving it into the receiver's table; nothing is copied and no
/// send blocks. A waiting lane spins briefly, then sleeps until the sender of its key wakes it.
class InprocFabric final : public Fabric {
 public:
  /// Throws std::invalid_argument unless lanes >= 1.
  explicit InprocFabric(std::int32_t lanes);
  ~InprocFabric() override;

  /// Throws std::out_of_range for a lane that the fabric lacks.
  Channel& channel(std::int32_t lane) override;
  std::int32_t lanes() const override { return static_cast<std::int32_t>(channels_.size()); }
  std::string name() const override { return "inproc"; }

 private:
  std::vector<std::unique_ptr<LaneChannel>> channels_;
};

}  // namespace nestor::comm::inproc
