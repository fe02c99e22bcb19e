#pragma once

#include <memory>
#include <vector>

#include <nestor/comm/ucx.h>

namespace nestor::comm::ucx {

/// All lanes' ends in one process, connected to each other.
class UcxFabric final : public Fabric {
 public:
  /// Throws std::invalid_argument unless lanes >= 1, and what open_ucx_channel throws.
  UcxFabric(std::int32_t lanes, const UcxOptions& options);

  /// Throws std::out_of_range for a lane that the fabric lacks.
  Channel& channel(std::int32_t lane) override;
  std::int32_t lanes() const override { return static_cast<std::int32_t>(channels_.size()); }
  std::string name() const override { return "ucx"; }

 private:
  std::vector<std::unique_ptr<UcxChannel>> channels_;
};

}  // namespace nestor::comm::ucx
