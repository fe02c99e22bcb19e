#include <nestor/comm/ucx.h>

#include "channel_suite.h"

namespace nestor::comm {

namespace {

Backend over(const std::string& name, const std::string& transports) {
  UcxOptions options;
  options.transports = transports;
  return {name, [options](std::int32_t lanes) { return make_ucx_fabric(lanes, options); }, false};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(UcxSharedMemory, ChannelConformance, testing::Values(over("ucx_shm", "posix,cma,self")));
INSTANTIATE_TEST_SUITE_P(UcxTcp, ChannelConformance, testing::Values(over("ucx_tcp", "tcp,self")));

}  // namespace nestor::comm
