#include <string>

#include <nestor/actors/error.h>
#include <nestor/actors/gradient_exchange.h>
#include <nestor/actors/tag.h>
#include <nestor/actors/tensor_buffer.h>
#include <nestor/comm/collective.h>

namespace nestor::actors {

void reduce_gradients(const LaneLink& link, std::span<const std::int32_t> lanes, std::int32_t index,
                      const modules::Optimizer::Parameters& parameters, OpTime& time) {
  if (parameters.empty()) return;
  modules::Tensors own;
  own.reserve(parameters.size());
  for (const auto& [name, parameter] : parameters) own.push_back(parameter.grad());
  comm::Message message = to_message(own);
  time.bytes = static_cast<std::int64_t>(comm::bytes(message));

  const std::int64_t before = now_ns();
  std::vector<comm::Message> gathered;
  check(comm::all_gather(link.channel, link.lane, lanes, link.key(reduction_tag(index)), std::move(message),
                         link.deadline, &gathered),
        link.lane);
  time.wait_ns += now_ns() - before;

  torch::NoGradGuard no_grad;
  std::vector<modules::Tensors> members;
  for (std::size_t m = 0; m < lanes.size(); ++m) {
    members.push_back(lanes[m] == link.lane ? own : to_tensors(gathered[m]));
    if (members.back().size() != parameters.size())
      throw Error("lane" + std::to_string(link.lane),
                  "lane" + std::to_string(lanes[m]) + " reduces another number of parameters than this lane");
  }
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    torch::Tensor sum;
    bool fresh = false;  // ours alone, so that it may be added to in place
    for (std::size_t m = 0; m < lanes.size(); ++m) {
      const torch::Tensor& part = members[m][p];
      if (!part.defined()) continue;
      if (!sum.defined()) {
        sum = part;
      } else if (!fresh) {
        sum = sum + part;
        fresh = true;
      } else {
        sum.add_(part);
      }
    }
    if (!sum.defined()) continue;
    if (!fresh && !sum.is_same(own[p])) sum = sum.clone();
    torch::Tensor parameter = parameters[p].second;
    parameter.mutable_grad() = std::move(sum);
  }
}

double sum_over_lanes(const LaneLink& link, std::span<const std::int32_t> lanes, double partial, OpTime& time) {
  if (lanes.size() == 1) return partial;
  const std::int64_t before = now_ns();
  check(comm::all_sum(link.channel, link.lane, lanes, link.key(norm_tag()), {&partial, 1}, link.deadline), link.lane);
  time.wait_ns += now_ns() - before;
  return partial;
}

}  // namespace nestor::actors
