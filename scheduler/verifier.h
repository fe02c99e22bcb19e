#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nestor/scheduler/plan.h>

namespace nestor::scheduler {

/// What a transfer may wait for (docs/schedule.md). `single` is the strictest: a table that passes it runs anywhere.
enum class Transport { buffered, edge, pair, single };
Transport parse_transport(std::string_view name);  ///< throws Error listing the four
std::string_view to_string(Transport transport);

/// One reason why a plan is unsound: `where` is "lane 2, operator 14 (backward llm stage 3 microbatch 5)".
struct Fault {
  std::string where;
  std::string what;
};

struct Verdict {
  std::vector<Fault> faults;  ///< empty: sound; the first is the most telling
  bool sound() const { return faults.empty(); }
};

/// Proves what docs/schedule.md lists. Never throws on a plan that `read_plan` accepted.
Verdict verify(const Plan& plan, Transport transport = Transport::single);

}  // namespace nestor::scheduler
