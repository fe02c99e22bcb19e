#include <nestor/scheduler/document.h>
#include <nestor/scheduler/plan.h>

namespace nestor::scheduler {
namespace {

class PlanWriter {
 public:
  explicit PlanWriter(const Plan& plan) : plan_(plan) {
    for (std::size_t i = 0; i <= plan.workload.pools.size(); ++i) {
      names_.push_back(json_text(plan.workload.name(ModuleId{static_cast<std::int64_t>(i)})));
    }
  }

  std::string write() {
    out_.reserve(plan_.table.operators.size() * 128 + 4096);
    out_ += "{\"format\": \"nestor.plan/1\", \"policy\": " + json_text(plan_.policy);
    out_ += ",\n \"workload\": " + write_workload(plan_.workload) + ",\n \"extra_warmup\": ";
    append_number(out_, std::int64_t{plan_.extra_warmup});
    if (plan_.custom_backbone) out_ += ", \"backbone\": \"custom\"";
    out_ += ", \"makespan\": ";
    append_number(out_, plan_.makespan);
    if (!plan_.microbatch_order.empty()) {
      out_ += ",\n \"microbatch_order\": [";
      for (std::size_t i = 0; i < plan_.microbatch_order.size(); ++i) {
        if (i > 0) out_ += ", ";
        append_number(out_, std::int64_t{plan_.microbatch_order[i]});
      }
      out_ += ']';
    }
    out_ += ",\n \"lanes\": [";
    for (std::int32_t lane = 0; lane < plan_.table.lanes(); ++lane) {
      out_ += lane > 0 ? ",\n  " : "\n  ";
      write_lane(lane);
    }
    out_ += "],\n \"in_flight\": {";
    for (std::size_t module = 0; module < plan_.in_flight.size(); ++module) {
      if (module > 0) out_ += ", ";
      out_ += names_[module] + ": [";
      for (std::size_t lane = 0; lane < plan_.in_flight[module].size(); ++lane) {
        if (lane > 0) out_ += ", ";
        append_number(out_, plan_.in_flight[module][lane]);
      }
      out_ += ']';
    }
    out_ += "}}\n";
    return std::move(out_);
  }

 private:
  void write_lane(std::int32_t lane) {
    out_ += "{\"name\": \"lane" + std::to_string(lane) + "\", \"ops\": [";
    bool first = true;
    for (const Operator& op : plan_.table.row(LaneId{lane})) {
      out_ += first ? "\n   " : ",\n   ";
      first = false;
      write_operator(op);
    }
    out_ += "]}";
  }

  void integer(const char* key, std::int64_t value) {
    out_ += key;
    append_number(out_, value);
  }

  void times(const Operator& op) {
    out_ += ", \"start\": ";
    append_number(out_, op.start);
    out_ += ", \"end\": ";
    append_number(out_, op.end);
  }

  void end_of_edge(const char* key, std::int32_t module, std::int32_t stage) {
    out_ += key;
    out_ += "{\"module\": " + names_[module];
    if (stage >= 0) integer(", \"stage\": ", stage);
    out_ += '}';
  }

  void write_operator(const Operator& op) {
    out_ += "{\"op\": \"";
    out_ += to_string(op.kind);
    out_ += '"';
    if (op.is_compute()) {
      out_ += ", \"module\": " + names_[op.module];
      integer(", \"microbatch\": ", op.microbatch);
      if (op.stage >= 0) integer(", \"stage\": ", op.stage);
      times(op);
    } else if (op.is_transfer()) {
      end_of_edge(", \"from\": ", op.module, op.stage);
      end_of_edge(", \"to\": ", op.to_module, op.to_stage);
      out_ += ", \"direction\": \"";
      out_ += to_string(op.direction);
      out_ += '"';
      integer(", \"microbatch\": ", op.microbatch);
      integer(", \"peer\": ", op.peer);
      if (op.end > op.start) times(op);
    } else if (op.kind == OpKind::reduce) {
      out_ += ", \"module\": " + names_[op.module] + ", \"lanes\": [";
      const Reduction& reduction = plan_.table.reductions[op.reduction];
      for (std::size_t i = 0; i < reduction.lanes.size(); ++i) {
        integer(i > 0 ? ", " : "", reduction.lanes[i].value);
      }
      out_ += ']';
    }
    out_ += '}';
  }

  const Plan& plan_;
  std::vector<std::string> names_;
  std::string out_;
};

}  // namespace

std::string write_plan(const Plan& plan) {
  return PlanWriter(plan).write();
}

}  // namespace nestor::scheduler
