#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <nestor/launch/cluster/client.h>
#include <nestor/launch/cluster/rows_json.h>
#include <nestor/launch/cluster/rows_text.h>
#include <nestor/launch/commands/command.h>
#include <nestor/launch/error.h>
#include <nestor/launch/interrupts.h>

// status, list, resize: what a client asks a running cluster.

namespace nestor::launch {
namespace {

using namespace std::chrono_literals;

struct QueryOptions {
  std::string cluster, what, pool, format = "text";
  std::int32_t size = 0;
  std::vector<std::int32_t> lanes;
  bool watch = false;
};

template <class Row>
void print_rows(const std::vector<Row>& rows, const std::string& format,
                std::string (*text)(const std::vector<Row>& rows)) {
  if (format != "json") {
    std::cout << text(rows);
    return;
  }
  auto json = nlohmann::ordered_json::array();
  for (const Row& row : rows) json.push_back(to_json(row));
  std::cout << json.dump(2) << std::endl;
}

int list(const QueryOptions& options) {
  ClusterClient cluster(options.cluster);
  const auto& head = cluster.head();
  if (options.what == "actors") {
    print_rows(head.call(&HeadActor::actors).get(), options.format, actors_text);
  } else if (options.what == "nodes") {
    print_rows(head.call(&HeadActor::nodes).get(), options.format, nodes_text);
  } else {
    print_rows(head.call(&HeadActor::pools).get(), options.format, pools_text);
  }
  return 0;
}

int status(const QueryOptions& options) {
  ClusterClient cluster(options.cluster);
  std::optional<Interrupts> interrupts;
  if (options.watch) interrupts.emplace();
  for (;;) {
    const ClusterRow row = cluster.head().call(&HeadActor::status).get();
    if (options.format == "json") {
      std::cout << to_json(row).dump(options.watch ? -1 : 2) << std::endl;
    } else {
      if (options.watch && ::isatty(STDOUT_FILENO)) std::cout << "\033[H\033[2J";
      std::cout << status_text(row) << std::flush;
    }
    if (!options.watch) return 0;
    // The pace of a display: wakes early at Ctrl-C.
    auto pause = std::make_shared<actors::Promise<void>>();
    auto waking = pause->future();
    interrupts->on_first([pause] { pause->set_value(); });
    if (interrupts->requested() || waking.wait_for(1s)) return 0;
  }
}

int resize(const QueryOptions& options) {
  if (options.size > 0 && !options.lanes.empty())
    throw InputError("resize", "takes a size or --lanes, not both", "give one");
  if (options.size < 1 && options.lanes.empty()) throw InputError("resize", "needs a size of at least 1");
  ClusterClient cluster(options.cluster);
  const auto& head = cluster.head();
  const auto kind = options.lanes.empty() ? JobRequest::Kind::resize : JobRequest::Kind::move;
  head.call(&HeadActor::ask, JobRequest{kind, options.pool, options.size, options.lanes}).get().value();
  for (const PoolRow& row : head.call(&HeadActor::pools).get())
    if (row.name == options.pool)
      fmt::print(stderr, "pool {}: on lanes {} from the next step on\n", row.name, lanes_text(row.lanes));
  return 0;
}

void add_cluster_option(CLI::App* command, QueryOptions& options) {
  command->add_option("--cluster", options.cluster, "Its name; may be left out when one runs")->type_name("NAME");
}
void add_format_option(CLI::App* command, QueryOptions& options) {
  command->add_option("--format", options.format, "text or json")->check(CLI::IsMember({"text", "json"}));
}

}  // namespace

void add_cluster_queries(CLI::App& program, Session& session) {
  {
    auto options = std::make_shared<QueryOptions>();
    auto command = program.add_subcommand("status", "Say how a running cluster and its job are");
    add_cluster_option(command, *options);
    add_format_option(command, *options);
    command->add_flag("--watch", options->watch, "Again every second, until Ctrl-C");
    command->footer("Example:\n  nestor status --watch");
    command->callback([options, &session] { session.action = [options] { return status(*options); }; });
  }
  {
    auto options = std::make_shared<QueryOptions>();
    auto command = program.add_subcommand("list", "List a running cluster's actors, nodes or pools");
    command->add_option("what", options->what, "actors, nodes or pools")
        ->required()
        ->check(CLI::IsMember({"actors", "nodes", "pools"}));
    add_cluster_option(command, *options);
    add_format_option(command, *options);
    command->footer("Example:\n  nestor list actors --format json");
    command->callback([options, &session] { session.action = [options] { return list(*options); }; });
  }
  {
    auto options = std::make_shared<QueryOptions>();
    auto command = program.add_subcommand("resize", "Change how many members a pool of the running job has, or where");
    command->add_option("pool", options->pool, "Name of an encoder's or a generator's pool")->required();
    command->add_option("size", options->size, "Members, from the next step on; member i on lane i mod stages");
    command->add_option("--lanes", options->lanes, "Lanes of the members instead, e.g. 2,3: devices of their own")
        ->delimiter(',');
    add_cluster_option(command, *options);
    command->footer("Example:\n  nestor resize vision 3\n  nestor resize vision --lanes 2,3");
    command->callback([options, &session] { session.action = [options] { return resize(*options); }; });
  }
}

}  // namespace nestor::launch
