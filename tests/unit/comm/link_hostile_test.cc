// What strangers do to a port: random bytes, half greetings, silence, huge frames.
#include <array>
#include <atomic>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link_testing.h"

namespace nestor::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class Connection {
 public:
  explicit Connection(const std::string& endpoint) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    descriptor_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    timeval limit{10, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    connected_ = ::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Connection() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Connection(Connection&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), connected_(other.connected_) {}
  bool connected() const { return connected_; }
  /// False once the other side has closed.
  bool write(const std::string& bytes) {
    return ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  /// Reads until the other side closes; false when it does not for ten seconds.
  bool closed_by_server() {
    char block[4096];
    for (;;) {
      auto count = ::recv(descriptor_, block, sizeof block, 0);
      if (count == 0 || (count < 0 && errno == ECONNRESET)) return true;
      if (count < 0) return false;
    }
  }

 private:
  int descriptor_;
  bool connected_;
};

/// ZMTP 3.0's greeting: signature, version, mechanism, as a client, filler.
std::string greeting(const std::string& mechanism) {
  std::string text("\xff\0\0\0\0\0\0\0\1\x7f\3\0", 12);
  text += mechanism;
  text.resize(12 + 20, '\0');
  text.resize(64, '\0');
  return text;
}

std::string frame_header(unsigned char flags, std::uint64_t size) {
  std::string text(1, static_cast<char>(flags));
  for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>(size >> shift);
  return text;
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) count += entry.is_symlink() ? 1 : 0;
  return count;
}

std::chrono::nanoseconds processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

class LinkHostile : public ::testing::Test {
 protected:
  void SetUp() override {
    link.options.handshake = milliseconds(500);
    link.at_server.on_message = [&](const std::string& peer, const std::string& text) {
      if (!link.server->send(peer, text).ok()) ++unsent;
    };
    link.open();
  }
  /// A round trip of a real peer.
  bool answers() {
    auto before = link.at_client.messages.size();
    return link.client->send("ping").ok() && link.at_client.wait_messages(before + 1);
  }
  void expect_unharmed() {
    EXPECT_TRUE(answers());
    EXPECT_TRUE(link.at_client.gone.empty());
    EXPECT_TRUE(link.at_server.gone.empty());
    EXPECT_EQ(link.at_server.peers.size(), 1u);
    EXPECT_EQ(unsent, 0);
  }

  LinkPair link;
  std::atomic<int> unsent = 0;
};

TEST_F(LinkHostile, AThousandConnectionsOfGarbageAreCountedAndForgotten) {
  std::mt19937 random(7);
  auto noise = [&](std::size_t size) {
    std::string text(size, '\0');
    for (auto& c : text) c = static_cast<char>(random());
    return text;
  };
  const auto curve = greeting("CURVE");
  std::array<std::function<void(Connection&)>, 10> deeds{
      [&](Connection& c) { c.write(noise(random() % 4096)); },                             // random bytes
      [&](Connection& c) { c.write(curve.substr(0, random() % 64)); },                     // half a greeting
      [&](Connection& c) { c.write(greeting("NULL") + noise(100)); },                      // no security
      [&](Connection& c) { c.write(greeting("PLAIN") + noise(100)); },                     // another one
      [&](Connection& c) { c.write(curve + noise(1000)); },                                // then noise
      [&](Connection& c) { c.write(curve + frame_header(6, 1ull << 62)); },                // a frame of 4 EiB
      [&](Connection& c) { c.write(curve + frame_header(6, 200'000) + noise(100'000)); },  // half of a long one
      [&](Connection& c) { c.write(curve + std::string("\4\xc8\5HELLO") + noise(194)); },  // a forged hello
      [&](Connection& c) { c.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); },                // another protocol
      [](Connection&) {},                                                                  // nothing at all
  };
  auto round = [&](int count) {
    for (int i = 0; i < count; ++i) {
      Connection stranger(link.server->endpoint());
      ASSERT_TRUE(stranger.connected());
      deeds[static_cast<std::size_t>(i) % deeds.size()](stranger);
      if (i % 100 == 0) {
        ASSERT_TRUE(answers());
      }
    }
  };
  round(200);  // what libzmq and the allocator keep for good
  ASSERT_TRUE(eventually([&] { return link.server->counters().refused == 200; })) << link.server->counters().refused;
  auto open_before = descriptors();
  [[maybe_unused]] auto bytes_before = resident_bytes();
  round(1000);
  EXPECT_TRUE(eventually([&] { return link.server->counters().refused == 1200; })) << link.server->counters().refused;
  EXPECT_TRUE(eventually([&] { return descriptors() <= open_before; })) << descriptors() << " " << open_before;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep freed memory
  EXPECT_LT(resident_bytes(), bytes_before + (std::size_t{8} << 20));
#endif
  expect_unharmed();
}

TEST_F(LinkHostile, SilentConnectionsAreClosedAndBurnNoProcessor) {
  std::vector<Connection> silent;
  for (int i = 0; i < 100; ++i) {
    silent.emplace_back(link.server->endpoint());
    if (i % 2 == 1) {
      ASSERT_TRUE(silent.back().write(greeting("CURVE").substr(0, 11)));
    }
  }
  auto begin = steady_clock::now();
  auto worked = processor_time();
  ASSERT_TRUE(answers());
  for (auto& connection : silent) EXPECT_TRUE(connection.closed_by_server());
  auto share = static_cast<double>((processor_time() - worked).count()) /
               static_cast<double>((steady_clock::now() - begin).count());
  EXPECT_LT(share, 0.5);  // a few percent; one spinning thread would be 1
  EXPECT_TRUE(eventually([&] { return link.server->counters().refused == 100; })) << link.server->counters().refused;
  expect_unharmed();
}

TEST_F(LinkHostile, NobodyGetsMemoryBeforeTheyHaveProvenTheirKey) {
  [[maybe_unused]] auto bytes_before = resident_bytes();
  std::vector<Connection> greedy;
  const std::string block(64 << 10, 'x');
  for (int i = 0; i < 100; ++i) {  // 100 frames of 64 MiB announced, and as much of them sent as is taken
    greedy.emplace_back(link.server->endpoint());
    auto& connection = greedy.back();
    connection.write(greeting("CURVE") + frame_header(6, 64 << 20));
    for (int j = 0; j < 16 && connection.write(block); ++j) {
    }
  }
  for (auto& connection : greedy) EXPECT_TRUE(connection.closed_by_server());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(resident_bytes(), bytes_before + (std::size_t{48} << 20));
#endif
  expect_unharmed();
}

TEST(LinkCrowd, SilentConnectionsDoNotUseUpTheDescriptors) {
  LinkPair link;
  link.options.handshake = std::chrono::seconds(600);  // not closed by the clock
  link.listen();
  std::vector<Connection> silent;
  for (int i = 0; i < 400; ++i) silent.emplace_back(link.server->endpoint());
  EXPECT_TRUE(silent.front().closed_by_server());
  EXPECT_TRUE(eventually([&] { return link.server->counters().refused == 400 - 256; }))
      << link.server->counters().refused;
  link.connect();
  ASSERT_TRUE(link.at_client.wait_peers(1));
  EXPECT_TRUE(link.client->send("x").ok());
  EXPECT_TRUE(link.at_server.wait_messages(1));
}

}  // namespace
}  // namespace nestor::comm
