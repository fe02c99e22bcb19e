// link [--messages N]: round trip and pipelined rate of links between two processes, over tcp and ipc, 64 bytes each,
// beside libzmq's own sockets with CURVE (DEALER and ROUTER, each owned by its thread) on the same machine. Medians of
// five runs; baseline.json records the ratios.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.hpp>

#include <nestor/comm/link.h>

namespace {

using namespace nestor::comm;
using Clock = std::chrono::steady_clock;
constexpr int kTrips = 5000, kRuns = 5;
const std::string kPayload(64, 'x');

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A forked server that tells its endpoint through a pipe and lives until it is killed.
class ServerProcess {
 public:
  explicit ServerProcess(const std::function<void(int pipe)>& serve) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      serve(ends[1]);
      ::_exit(0);
    }
    for (char c; ::read(ends[0], &c, 1) == 1 && c != '\n';) endpoint += c;
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~ServerProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::string endpoint;

 private:
  pid_t pid_;
};

void tell(int pipe, const std::string& endpoint) {
  auto line = endpoint + "\n";
  if (::write(pipe, line.data(), line.size()) < 0) std::abort();
}

struct Figures {
  double handler = 0, caller = 0;  // seconds of a round trip: answered in the link's thread, by a thread that waits
  double rate = 0;                 // messages a second, one way
};

template <class Measure>
double median(Measure measure) {
  std::vector<double> all;
  for (int run = 0; run < kRuns; ++run) all.push_back(measure());
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

/// Sends back what begins with 'e'; answers 'n' ("how many?") once it is asked.
struct Echo : LinkHandler {
  std::atomic<LinkServer*> server{nullptr};
  void connected(const std::string&) override {}
  void received(const std::string& peer, std::string message) override {
    if (message[0] != 'x') [[maybe_unused]]
      auto sent = server.load()->send(peer, std::move(message));
  }
  void lost(const std::string&, const std::string&) override {}
};

struct Caller : LinkHandler {
  std::mutex mutex;
  std::condition_variable changed;
  bool up = false;
  int answers = 0, left = 0;
  LinkClient* client = nullptr;
  void connected(const std::string&) override {
    std::lock_guard lock(mutex);
    up = true;
    changed.notify_all();
  }
  void received(const std::string&, std::string message) override {
    if (left > 0 && --left > 0) {
      [[maybe_unused]] auto sent = client->send(std::move(message));
      return;
    }
    std::lock_guard lock(mutex);
    ++answers;
    changed.notify_all();
  }
  void lost(const std::string&, const std::string& cause) override {
    std::fprintf(stderr, "lost: %s\n", cause.c_str());
  }
};

Figures measure_link(const std::string& endpoint, int messages) {
  auto server_keys = make_link_keys(), client_keys = make_link_keys();
  ServerProcess process([&](int pipe) {
    Echo echo;
    auto server = listen_link(endpoint, server_keys, echo);
    echo.server = server.get();
    server->allow(client_keys.public_key, "bench");
    tell(pipe, server->endpoint());
    for (;;) ::pause();
  });
  Caller caller;
  auto client = connect_link(process.endpoint, server_keys.public_key, client_keys, caller);
  caller.client = client.get();
  std::unique_lock lock(caller.mutex);
  caller.changed.wait(lock, [&] { return caller.up; });
  auto call = [&](const std::string& text) {
    auto before = caller.answers;
    lock.unlock();
    while (!client->send(text).ok()) std::this_thread::yield();
    lock.lock();
    caller.changed.wait(lock, [&] { return caller.answers > before; });
  };
  const std::string ask = "e" + kPayload.substr(1);
  Figures figures;
  figures.caller = median([&] {
    auto begin = Clock::now();
    for (int i = 0; i < kTrips; ++i) call(ask);
    return seconds_since(begin) / kTrips;
  });
  figures.handler = median([&] {
    auto begin = Clock::now();
    caller.left = kTrips;
    call(ask);
    return seconds_since(begin) / kTrips;
  });
  figures.rate = median([&] {
    auto begin = Clock::now();
    lock.unlock();
    for (int i = 0; i < messages;) {
      if (client->send(kPayload).ok())
        ++i;
      else
        std::this_thread::yield();  // 100,000 are waiting
    }
    lock.lock();
    call(ask);
    return messages / seconds_since(begin);
  });
  return figures;
}

Figures measure_libzmq(const std::string& endpoint, int messages) {
  auto server_keys = make_link_keys(), client_keys = make_link_keys();
  ServerProcess process([&](int pipe) {
    zmq::context_t context;
    zmq::socket_t router(context, zmq::socket_type::router);
    router.set(zmq::sockopt::curve_server, true);
    router.set(zmq::sockopt::curve_secretkey, server_keys.secret_key);
    router.set(zmq::sockopt::rcvhwm, 10'000);
    router.bind(endpoint);
    tell(pipe, router.get(zmq::sockopt::last_endpoint));
    for (zmq::message_t route, body;;) {
      if (!router.recv(route) || !router.recv(body)) return;
      if (*body.data<char>() == 'x') continue;
      router.send(route, zmq::send_flags::sndmore);
      router.send(body, zmq::send_flags::none);
    }
  });
  zmq::context_t context;
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::sndhwm, 100'000);
  dealer.set(zmq::sockopt::curve_serverkey, server_keys.public_key);
  dealer.set(zmq::sockopt::curve_publickey, client_keys.public_key);
  dealer.set(zmq::sockopt::curve_secretkey, client_keys.secret_key);
  dealer.connect(process.endpoint);
  const std::string ask = "e" + kPayload.substr(1);
  zmq::message_t answer;
  auto call = [&] {
    dealer.send(zmq::buffer(ask), zmq::send_flags::none);
    if (!dealer.recv(answer)) std::abort();
  };
  call();
  Figures figures;
  figures.handler = figures.caller = median([&] {
    auto begin = Clock::now();
    for (int i = 0; i < kTrips; ++i) call();
    return seconds_since(begin) / kTrips;
  });
  figures.rate = median([&] {
    auto begin = Clock::now();
    for (int i = 0; i < messages; ++i) dealer.send(zmq::buffer(kPayload), zmq::send_flags::none);
    call();
    return messages / seconds_since(begin);
  });
  return figures;
}

void print(const char* name, const Figures& figures) {
  std::printf("%-12s %12.1f %12.1f %14.0f\n", name, figures.handler * 1e6, figures.caller * 1e6, figures.rate);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int messages = 300'000;
  if (argc == 3 && std::strcmp(argv[1], "--messages") == 0) messages = std::atoi(argv[2]);
  if (messages < 1 || (argc != 1 && argc != 3)) {
    std::fprintf(stderr, "usage: perf_link [--messages N]\n");
    return 2;
  }
  std::printf("%-12s %12s %12s %14s\n", "64 bytes", "handler us", "caller us", "messages/s");
  for (std::string scheme : {"tcp", "ipc"}) {
    auto place = [&](const char* who) {
      return scheme == "tcp" ? std::string("tcp://127.0.0.1:*")
                             : "ipc:///tmp/perf-link-" + std::string(who) + "-" + std::to_string(::getpid());
    };
    auto own = measure_link(scheme == "tcp" ? "tcp://127.0.0.1:0" : place("own"), messages);
    auto reference = measure_libzmq(place("libzmq"), messages);
    print(("link " + scheme).c_str(), own);
    print(("libzmq " + scheme).c_str(), reference);
    std::printf("%-12s %12.2f %12.2f %14.2f\n", "ratio", own.handler / reference.handler, own.caller / reference.caller,
                own.rate / reference.rate);
    if (scheme == "ipc") {
      ::unlink(place("own").c_str() + 6);
      ::unlink(place("libzmq").c_str() + 6);
    }
  }
  return 0;
}
