#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nestor {

/// Amounts by name: "cpus", "lanes", or a name of the cluster file's ("gpu_memory"). Fractions are fine.
using Resources = std::map<std::string, double>;

enum class Place : std::uint8_t {
  pack,   ///< on the fullest host that has room: others stay free for large requests
  spread  ///< on the host with the fewest actors
};

}  // namespace nestor

namespace nestor::launch {

/// Which host an actor goes to. Pure: knows hosts and what was taken of them, nothing of processes.
class Placement {
 public:
  struct Host {
    std::string host;  ///< as the cluster file names it
    Resources offers;
  };
  explicit Placement(std::vector<Host> hosts);

  /// From now on the host offers this, where it did not say itself.
  void offer(std::size_t host, const std::string& name, double amount) {
    hosts_[host].offers.try_emplace(name, amount);
  }
  /// Takes `needs` from a host and returns its number. Throws actors::Error naming the shortfall: where no host could
  /// ever hold it, where none can now (and what is free), where `on` (empty: any) is no host.
  std::size_t take(const std::string& actor, const Resources& needs, Place place, const std::string& on);
  void give_back(std::size_t host, const Resources& needs);

  const std::vector<Host>& hosts() const { return hosts_; }
  Resources free(std::size_t host) const;

 private:
  struct Taken {
    Resources amounts;
    std::size_t actors = 0;
  };
  /// The first need that `amounts` do not cover.
  static std::optional<std::string> shortfall(const Resources& needs, const Resources& amounts);
  /// The largest share of anything offered that is taken.
  double fullness(std::size_t host) const;

  std::vector<Host> hosts_;
  std::vector<Taken> taken_;
};

/// "2 cpus, 1.5 gpu_memory"; "nothing" where empty.
std::string in_words(const Resources& amounts);

}  // namespace nestor::launch
