#include <nestor/scheduler/operator_table.h>

namespace nestor::scheduler {

std::string_view to_string(OpKind kind) {
  switch (kind) {
    case OpKind::forward:
      return "forward";
    case OpKind::backward:
      return "backward";
    case OpKind::backward_input:
      return "backward_input";
    case OpKind::backward_weight:
      return "backward_weight";
    case OpKind::recompute:
      return "recompute";
    case OpKind::send:
      return "send";
    case OpKind::recv:
      return "recv";
    case OpKind::reduce:
      return "reduce";
    case OpKind::update:
      return "update";
  }
  return "?";
}

std::string_view to_string(Direction direction) {
  return direction == Direction::activation ? "activation" : "gradient";
}

}  // namespace nestor::scheduler
