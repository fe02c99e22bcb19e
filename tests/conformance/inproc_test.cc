#include "channel_suite.h"

namespace nestor::comm {

INSTANTIATE_TEST_SUITE_P(Inproc, ChannelConformance, testing::Values(Backend{"inproc", make_inproc_fabric}));

}  // namespace nestor::comm
