#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nestor/actors/remote/node.h>

namespace nestor::launch {

/// What a process of a cluster is told by the one that starts it: one line of JSON on its standard input, since it
/// holds secrets.
struct Introduction {
  std::string cluster, host;
  std::int64_t host_number = 0;
  std::string endpoint, head_key;  ///< of the head
  comm::LinkKeys keys;             ///< the host's
  std::uint64_t secret = 0;        ///< in every tensor message
  std::vector<std::int32_t> own_lanes;
  std::int32_t lanes = 0;                    ///< of the whole cluster
  std::string logs;                          ///< folder; empty: standard error
  std::string listen;                        ///< where other processes may reach the one for users' actors
  std::map<std::string, std::string> peers;  ///< ... public keys and their owners
  std::int32_t lane = -1;                    ///< worker
  std::uint64_t generation = 0;

  std::string write() const;
  /// Throws InputError: the command was started by hand, say.
  static Introduction read(const std::string& text);
  actors::remote::Node::Member member() const { return {endpoint, head_key, keys}; }
};

}  // namespace nestor::launch
