#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nestor/comm/link.h>

namespace nestor::launch {

/// Who may enter a cluster, and what its tensor messages carry. Made by `nestor up`, anew each time.
struct Credentials {
  comm::LinkKeys head, client;
  std::vector<comm::LinkKeys> hosts;
  std::uint64_t secret = 0;
};
/// From the system's randomness.
Credentials make_credentials(std::size_t hosts);

/// The head that runs.
struct ClusterState {
  std::string endpoint, version;
  std::int64_t pid = 0;
  std::uint64_t started = 0;  ///< the process's start time, in the kernel's ticks: a pid alone may be another's
};

/// $NESTOR_HOME/NAME (default ~/.nestor): credentials, state, logs of one cluster. Mode 0700, files 0600, each written
/// aside and renamed.
class ClusterFolder {
 public:
  /// Where clusters are kept.
  static std::filesystem::path home();
  /// Names of the clusters whose head lives, also where their files are damaged.
  static std::vector<std::string> running();
  /// The folder of that name, or of the only cluster that runs where it is empty. Throws InputError naming those that
  /// run.
  static ClusterFolder find_running(const std::string& name);
  /// Is it a cluster's name?
  static bool legal(const std::string& name);
  static constexpr const char* kNameHint = "1 to 64 letters, digits, or any of . _ -, not . or - first";
  /// Throws InputError for a name that is none.
  explicit ClusterFolder(const std::string& name);

  const std::string& name() const { return name_; }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log(const std::string& of) const { return path_ / "logs" / (of + ".log"); }

  /// Makes it. Throws InputError where others may read it or where it cannot be made.
  void make() const;
  /// Held by the head, and by `up` while it starts one. False where another holds it.
  class Lock {
   public:
    explicit Lock(const std::filesystem::path& file);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    bool held() const { return held_; }
    /// Writes into it who this is.
    void sign() const;

   private:
    int descriptor_ = -1;
    bool held_ = false;
  };
  std::filesystem::path lock_file() const { return path_ / "lock"; }
  /// The head that signed the lock and lives, whatever became of its other files; 0 where none does.
  std::int64_t head_pid() const;

  std::filesystem::path cluster_file() const { return path_ / "cluster.yaml"; }
  void write_cluster_file(const std::string& text) const;
  void write(const Credentials& credentials) const;
  /// Throws InputError where they are damaged, or readable by others.
  Credentials read_credentials() const;
  comm::LinkKeys read_keys(const std::string& owner) const;  ///< public keys of others have no secret
  void write(const ClusterState& state) const;
  /// The head's state where it lives; nothing where it has gone.
  std::optional<ClusterState> living() const;
  /// Credentials and state; the logs stay.
  void forget() const;

 private:
  std::string name_;
  std::filesystem::path path_;
};

/// Of a living process; 0 where there is none.
std::uint64_t start_time_of(std::int64_t pid);

}  // namespace nestor::launch
