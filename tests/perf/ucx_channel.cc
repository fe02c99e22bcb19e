// The UCX channel beside ucx_perftest's active messages, on this machine, in one run:
//   perf_ucx_channel [ROUNDS=7] [bw|lat|all] [shm|tcp|all]
// bandwidth: a stream of tensors of 1 to 64 MiB, 32 under way, one reused buffer at each end, against ucp_am_bw
// latency:   half a round trip of 8 B to 4 KiB, against ucp_am_lat with a header of the channel's size (-H)
// Both programs run as two processes pinned to two cores, turn by turn; figures are medians over the rounds, and so is
// the ratio of each round's pair, which other load on the machine disturbs less than the ratio of the medians. Run as
// root both run ahead of other load (SCHED_RR): otherwise a program that spins loses more to it than one that sleeps,
// and ratios flatter the channel.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nestor/comm/backends/ucx/wire.h>
#include <nestor/comm/ucx.h>

namespace nestor::comm {
namespace {

constexpr std::uint64_t kOutstanding = 32;                                     // ucx_perftest's default window
constexpr std::size_t kHeader = sizeof(ucx::Envelope) + sizeof(std::int64_t);  // of a tensor with one dimension

struct Case {
  const char* transports;
  bool bandwidth;
  std::size_t bytes;
  std::uint64_t warmup, rounds;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void pin(int core) {
  const sched_param priority{1};
  sched_setscheduler(0, SCHED_RR, &priority);  // without the right to, all run as they are
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

void require(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message);
}

void exchange(int socket, const std::string& mine, std::string* theirs) {
  char text[4096];
  if (write(socket, mine.data(), mine.size()) != static_cast<ssize_t>(mine.size())) throw std::runtime_error("write");
  const ssize_t length = read(socket, text, sizeof(text));
  if (length <= 0) throw std::runtime_error("the other process ended");
  theirs->assign(text, static_cast<std::size_t>(length));
}

/// On a page's start and in ordinary pages, as ucx_perftest's buffers are.
Buffer tensor(std::size_t bytes) {
  void* memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 1, bytes);
  Buffer buffer;
  buffer.descriptor = {DType::uint8, Device{}, {static_cast<std::int64_t>(bytes)}};
  buffer.data = memory;
  buffer.owner = std::shared_ptr<void>(memory, std::free);
  return buffer;
}

/// One end; lane 0 measures. Returns seconds for all rounds.
double run_lane(std::int32_t lane, int socket, const Case& what) {
  pin(lane);
  UcxOptions options;
  options.transports = what.transports;
  options.secret = 0x5eed;
  options.window = std::max<std::size_t>(kOutstanding * what.bytes, std::size_t{64} << 20);
  auto channel = open_ucx_channel(lane, 2, options);
  std::string theirs;
  exchange(socket, channel->address(), &theirs);
  channel->set_peer(1 - lane, theirs);
  const Buffer buffer = tensor(what.bytes);
  const std::int32_t peer = 1 - lane;
  const Deadline end = Deadline::max();
  const std::uint64_t total = what.warmup + what.rounds;
  const auto key = [](std::uint64_t i, std::uint64_t tag = 0) { return Key{1, i, tag}; };
  Clock::time_point start{};
  Message message;
  if (!what.bandwidth) {
    require(channel->post_recv(peer, key(0)));
    Message next{buffer};
    for (std::uint64_t i = 0; i < total; ++i) {
      if (i == what.warmup) start = Clock::now();
      if (lane == 1) require(channel->wait(peer, key(i), end, &message));
      require(channel->send(peer, key(i), std::move(next), end));
      // What belongs to the next round is done while this one's message is under way.
      next.push_back(buffer);
      message.clear();
      if (i + 1 < total) require(channel->post_recv(peer, key(i + 1)));
      if (lane == 0) require(channel->wait(peer, key(i), end, &message));
    }
  } else if (lane == 0) {
    require(channel->post_recv(peer, key(0, 1)));
    require(channel->post_recv(peer, key(1, 1)));
    for (std::uint64_t i = 0; i < total; ++i) {
      if (i == what.warmup) {
        require(channel->wait(peer, key(0, 1), end, &message));
        start = Clock::now();
      }
      require(channel->send(peer, key(i), {buffer}, end));
    }
    require(channel->wait(peer, key(1, 1), end, &message));
  } else {
    for (std::uint64_t i = 0; i < std::min(kOutstanding, total); ++i) require(channel->post_recv(peer, key(i)));
    for (std::uint64_t i = 0; i < total; ++i) {
      require(channel->wait(peer, key(i), end, &message));
      message.clear();
      if (i + kOutstanding < total) require(channel->post_recv(peer, key(i + kOutstanding)));
      if (i + 1 == what.warmup) require(channel->send(peer, key(0, 1), {}, end));
    }
    require(channel->send(peer, key(1, 1), {}, end));
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::string done;
  exchange(socket, "done", &done);  // neither end leaves before the other has finished
  return seconds;
}

double run_channel(const Case& what) {
  int sockets[2], result[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 || pipe(result) != 0) throw std::runtime_error("socketpair");
  pid_t children[2];
  for (std::int32_t lane : {0, 1}) {
    children[lane] = fork();
    if (children[lane] != 0) continue;
    close(sockets[1 - lane]);
    double seconds = 0;
    try {
      seconds = run_lane(lane, sockets[lane], what);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "perf_ucx_channel: lane %d: %s\n", lane, error.what());
      _exit(1);
    }
    if (lane == 0 && write(result[1], &seconds, sizeof(seconds)) != sizeof(seconds)) _exit(1);
    _exit(0);
  }
  close(sockets[0]);
  close(sockets[1]);
  close(result[1]);
  double seconds = 0;
  const bool measured = read(result[0], &seconds, sizeof(seconds)) == sizeof(seconds);
  close(result[0]);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  if (!measured) throw std::runtime_error("the channel's run failed");
  return what.bandwidth ? static_cast<double>(what.rounds * what.bytes) / seconds / (1 << 20)
                        : 1e6 * seconds / static_cast<double>(2 * what.rounds);
}

/// A port is listened on once it is in the kernel's table; a connection as a test would be taken for the client.
bool listens(int port) {
  char wanted[16];
  std::snprintf(wanted, sizeof(wanted), ":%04X", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string index, local, remote, state;
      words >> index >> local >> remote >> state;
      if (state == "0A" && local.ends_with(wanted)) return true;
    }
  }
  return false;
}

double run_perftest(const Case& what, int port) {
  setenv("UCX_TLS", what.transports, 1);
  setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1);
  const std::string common = "exec ucx_perftest -p " + std::to_string(port);
  const pid_t server = fork();
  if (server == 0) {
    pin(1);
    const std::string command = common + " > /dev/null 2>&1";
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  while (!listens(port)) {
    if (waitpid(server, nullptr, WNOHANG) == server) throw std::runtime_error("ucx_perftest ended (is it installed?)");
    std::this_thread::yield();
  }
  const std::string command = common + " 127.0.0.1 -f -t " + (what.bandwidth ? "ucp_am_bw" : "ucp_am_lat") + " -s " +
                              std::to_string(what.bytes) + " -H " + std::to_string(kHeader) + " -w " +
                              std::to_string(what.warmup) + " -n " + std::to_string(what.rounds) + " 2>/dev/null";
  cpu_set_t before;
  sched_getaffinity(0, sizeof(before), &before);
  pin(0);  // the child inherits it
  FILE* pipe = popen(command.c_str(), "r");
  sched_setaffinity(0, sizeof(before), &before);
  const sched_param ordinary{0};
  sched_setscheduler(0, SCHED_OTHER, &ordinary);
  std::string last;
  for (char line[512]; pipe != nullptr && std::fgets(line, sizeof(line), pipe) != nullptr;) last = line;
  if (pipe != nullptr) pclose(pipe);
  waitpid(server, nullptr, 0);
  unsetenv("UCX_TLS");
  std::istringstream numbers(last);
  double count, percentile, average, latency, average_bandwidth, bandwidth;
  if (!(numbers >> count >> percentile >> average >> latency >> average_bandwidth >> bandwidth)) {
    throw std::runtime_error("ucx_perftest printed: " + last);
  }
  return what.bandwidth ? bandwidth : latency;
}

void measure(const Case& what, int rounds) {
  std::vector<double> ours, theirs, ratios;
  static int port = 23000 + static_cast<int>(getpid() % 1000);
  for (int round = 0; round < rounds; ++round) {
    ++port;
    if (round % 2 == 0) ours.push_back(run_channel(what));
    theirs.push_back(run_perftest(what, port));
    if (round % 2 == 1) ours.push_back(run_channel(what));
    ratios.push_back(ours.back() / theirs.back());
  }
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  std::printf("%-14s %-9s %9zu B  channel %10.3f  ucx_perftest %10.3f  %-5s ratio %.3f (%.3f to %.3f)\n",
              what.transports, what.bandwidth ? "bandwidth" : "latency", what.bytes, median(ours), median(theirs),
              what.bandwidth ? "MiB/s" : "us", median(ratios), *low, *high);
  std::fflush(stdout);
}

}  // namespace
}  // namespace nestor::comm

int main(int argc, char** argv) {
  using nestor::comm::Case;
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  const std::string kind = argc > 2 ? argv[2] : "all", over = argc > 3 ? argv[3] : "all";
  try {
    for (const char* transports : {"posix,cma,self", "tcp,self"}) {
      const bool tcp = std::strncmp(transports, "tcp", 3) == 0;
      if (over != "all" && (over == "tcp") != tcp) continue;
      for (std::size_t mib : {1, 4, 16, 64}) {
        if (kind == "lat") break;
        nestor::comm::measure({transports, true, mib << 20, std::max<std::size_t>(64 / mib, 4), 1536 / mib}, rounds);
      }
      for (std::size_t bytes : {8, 256, 4096}) {
        if (kind == "bw") break;
        nestor::comm::measure({transports, false, bytes, 2000, tcp ? 20'000u : 300'000u}, rounds);
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "perf_ucx_channel: %s\n", error.what());
    return 1;
  }
  return 0;
}
