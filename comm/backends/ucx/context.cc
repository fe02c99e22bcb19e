#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

#include <nestor/comm/backends/ucx/context.h>

namespace nestor::comm::ucx {

namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) words.push_back(word);
  return words;
}

std::string listing(const char* folder) {
  std::string names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names += (names.empty() ? "" : ", ") + entry.path().filename().string();
  }
  return names;
}

/// UCX only warns of a device that it does not find, and then goes without the network.
void check_devices(const std::string& devices) {
  for (const std::string& name : split(devices)) {
    if (name == "all") continue;
    const std::string device = name.substr(0, name.find(':'));  // mlx5_0:1 is port 1
    const bool plain = !device.empty() && device != "." && device != ".." && device.find('/') == std::string::npos;
    if (plain && (std::filesystem::exists("/sys/class/net/" + device) ||
                  std::filesystem::exists("/sys/class/infiniband/" + device)))
      continue;
    throw std::runtime_error("ucx: no network device " + (name.empty() ? "of an empty name" : name) + " (there are " +
                             listing("/sys/class/net") + ")");
  }
}

/// Names of the transports that the context found: "tcp", "posix", ...
std::set<std::string> found(ucp_context_h context) {
  std::istringstream lines(printed([&](FILE* file) { ucp_context_print_info(context, file); }));
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const auto slash = line.find('/');
    if (line.find("resource") == std::string::npos || slash == std::string::npos) continue;
    const auto start = line.find_last_of(" \t", slash) + 1;
    names.insert(line.substr(start, slash - start));
  }
  return names;
}

constexpr const char* kGroups[] = {"all", "sm",   "shm",  "mm", "ib",   "ud",   "ud_v", "ud_x",
                                   "rc",  "rc_v", "rc_x", "dc", "dc_x", "cuda", "rocm", "ze"};

/// A transport asked for by its own name must be there. Groups (shm, ib, rc, cuda, ...) are UCX's to resolve.
void check_transports(ucp_context_h context, const std::string& transports) {
  const std::set<std::string> names = found(context);
  std::string there;
  for (const std::string& name : names) there += (there.empty() ? "" : ", ") + name;
  for (const std::string& word : split(transports)) {
    const std::string name = word.substr(0, word.find(':'));
    if (names.count(name) != 0) continue;
    if (std::find(std::begin(kGroups), std::end(kGroups), name) == std::end(kGroups)) {
      throw std::runtime_error("ucx: no transport " + (name.empty() ? "of an empty name" : name) + " (there are " +
                               there + ")");
    }
  }
  if (std::all_of(names.begin(), names.end(),
                  [](const std::string& name) { return name == "self" || name == "cma"; })) {
    throw std::runtime_error("ucx: no transport reaches another process with \"" + transports +
                             "\" (add tcp, or posix on one host)");
  }
}

/// Whether one of `names` is among the transports asked for; "all" and nothing ask for each.
bool asks_for(const std::string& transports, std::initializer_list<const char*> names) {
  const std::vector<std::string> words = split(transports);
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) {
                       return word == "all" || std::find(names.begin(), names.end(), word) != names.end();
                     }) ||
         words.empty();
}

/// UCX's settings of one transport are known to ucp_config_modify by other names than in the environment, up to 1.13.
bool old_names() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return major == 1 && minor <= 13;
}

}  // namespace

Context::Context(const UcxOptions& options, bool shared) {
  if (!options.net_devices.empty()) check_devices(options.net_devices);
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    throw std::runtime_error(std::string("ucx: its settings: ") + ucs_status_string(status));
  }
  const auto set = [&](const char* name, const std::string& value) {
    if (const ucs_status_t status = ucp_config_modify(config, name, value.c_str()); status != UCS_OK) {
      ucp_config_release(config);
      throw std::runtime_error(std::string("ucx: ") + name + "=" + value + ": " + ucs_status_string(status));
    }
  };
  if (!options.transports.empty()) set("TLS", options.transports);
  if (!options.net_devices.empty()) set("NET_DEVICES", options.net_devices);
  const bool old = old_names();
  if (!options.port_range.empty()) set(old ? "PORT_RANGE" : "TCP_PORT_RANGE", options.port_range);
  const bool posix = asks_for(options.transports, {"posix", "mm", "sm", "shm"});
  const bool sysv = asks_for(options.transports, {"sysv", "mm", "sm", "shm"});
  const bool cma = asks_for(options.transports, {"cma", "sm", "shm"});
  // Without this, endpoints with error handling silently use TCP instead of shared memory ...
  if (old && (posix || sysv)) set("MM_ERROR_HANDLING", "y");
  if (!old && posix) set("POSIX_ERROR_HANDLING", "y");
  if (!old && sysv) set("SYSV_ERROR_HANDLING", "y");
  // ... and without this, large messages pass through the shared segment piece by piece instead of by one copy (CMA).
  // It claims that a peer given up can no longer read our memory, which CMA does not stop: such a peer may complete a
  // receive with bytes written since. Its generation is over by then, and nobody takes anything from it.
  if (cma) set(old ? "MEMORY_INVALIDATE" : "CMA_MEMORY_INVALIDATE", "y");
  // CMA: one system call for 4 MiB instead of eight, each of which looks the other process up and locks its memory.
  if (cma) set(old ? "SCOPY_SEG_SIZE" : "CMA_SEG_SIZE", "4m");
  if (cma) set(old ? "SCOPY_TX_QUOTA" : "CMA_TX_QUOTA", "1");
  // With error handling a large message over TCP goes in segments through a buffer of the receiver: 8 KiB and 64 KiB by
  // default, each a system call and a turn of the loop. One of nearly 512 KiB costs the sender little, and stays in
  // the receiver's second-level cache until it has been copied on.
  if (asks_for(options.transports, {"tcp"})) {
    set(old ? "TX_SEG_SIZE" : "TCP_TX_SEG_SIZE", "256k");
    set(old ? "RX_SEG_SIZE" : "TCP_RX_SEG_SIZE", "508k");
  }
  // Shared memory learns of a death by keepalive alone. Over TCP a peer that was stopped and given up may crash us when
  // it resumes while keepalive is on; there sockets and our own pings tell.
  set("KEEPALIVE_INTERVAL", posix || sysv ? "1s" : "inf");

  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = shared ? 1 : 0;
  const ucs_status_t status = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  if (status != UCS_OK) {
    throw std::runtime_error(std::string("ucx: cannot start with transports \"") + options.transports +
                             "\": " + ucs_status_string(status) + " (ucx_info -d lists what this machine has)");
  }
  try {
    check_transports(context_, options.transports);
  } catch (...) {
    ucp_cleanup(context_);
    throw;
  }
}

Context::~Context() {
  ucp_cleanup(context_);
}

}  // namespace nestor::comm::ucx
