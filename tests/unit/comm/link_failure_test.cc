// Peers that are killed, stopped, slow to come or not allowed to.
#include <csignal>
#include <cstring>
#include <filesystem>
#include <future>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link_testing.h"

namespace nestor::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

/// A client in a process of its own, forked while this one has a single thread. Says "here" once connected.
class PeerProcess {
 public:
  explicit PeerProcess(const LinkKeys& keys, const LinkOptions& options = {}) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ends[1]);
      live(ends[0], keys, options);
    }
    ::close(ends[0]);
    pipe_ = ends[1];
  }
  ~PeerProcess() {
    ::close(pipe_);
    if (pid_ > 0) {
      send_signal(SIGKILL);
      reap();
    }
  }
  void connect(const std::string& endpoint, const std::string& server_key) {
    auto line = endpoint + " " + server_key + "\n";
    ASSERT_EQ(::write(pipe_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  void send_signal(int number) { ::kill(pid_, number); }
  int reap() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  [[noreturn]] static void live(int pipe, const LinkKeys& keys, const LinkOptions& options) {
    std::string line;
    for (char c; ::read(pipe, &c, 1) == 1 && c != '\n';) line += c;
    auto blank = line.find(' ');
    struct Hello : LinkHandler {
      std::promise<LinkClient*> made;
      std::shared_future<LinkClient*> client = made.get_future().share();
      void connected(const std::string&) override { [[maybe_unused]] auto sent = client.get()->send("here"); }
      void received(const std::string&, std::string) override {}
      void lost(const std::string&, const std::string&) override {}
    } hello;
    auto client = connect_link(line.substr(0, blank), line.substr(blank + 1), keys, hello, options);
    hello.made.set_value(client.get());
    for (char c; ::read(pipe, &c, 1) == 1;) {
    }
    ::_exit(0);
  }

  pid_t pid_ = -1;
  int pipe_ = -1;
};

TEST(LinkFailure, AKilledPeerIsLostAtOnce) {
  LinkPair link;
  PeerProcess peer(link.client_keys);
  link.options.timeout = std::chrono::seconds(60);  // not by silence
  link.listen();
  peer.connect(link.server->endpoint(), link.server_keys.public_key);
  ASSERT_TRUE(link.at_server.wait_messages(1));
  auto begin = steady_clock::now();
  peer.send_signal(SIGKILL);
  ASSERT_TRUE(link.at_server.wait_gone(1));
  EXPECT_LT(steady_clock::now() - begin, milliseconds(1000));  // some milliseconds
  EXPECT_EQ(link.at_server.gone[0], std::make_pair(std::string("worker#1"), std::string("connection closed")));
  EXPECT_EQ(link.server->counters().refused, 0u);
}

TEST(LinkFailure, AStoppedPeerIsLostAfterItsSilenceAndComesBackUnderAnotherNumber) {
  LinkPair link;
  PeerProcess peer(link.client_keys);
  link.options.heartbeat = milliseconds(100);
  link.options.timeout = milliseconds(1000);
  link.listen();
  peer.connect(link.server->endpoint(), link.server_keys.public_key);
  ASSERT_TRUE(link.at_server.wait_messages(1));
  auto begin = steady_clock::now();
  peer.send_signal(SIGSTOP);
  ASSERT_TRUE(link.at_server.wait_gone(1));
  auto took = steady_clock::now() - begin;
  EXPECT_GT(took, milliseconds(400));
  EXPECT_LT(took, milliseconds(4000));  // a loaded machine may starve this process, too
  EXPECT_EQ(link.at_server.gone[0], std::make_pair(std::string("worker#1"), std::string("silent for 1 s")));
  EXPECT_EQ(link.server->send("worker#1", "x").code, Code::peer_lost);
  EXPECT_EQ(link.at_server.peers.size(), 1u);
  peer.send_signal(SIGCONT);
  ASSERT_TRUE(link.at_server.wait_peers(2));
  EXPECT_EQ(link.at_server.peers[1], "worker#2");
  ASSERT_TRUE(link.at_server.wait_messages(2));
  EXPECT_EQ(link.at_server.messages[1].peer, "worker#2");
}

TEST(LinkFailure, AClientGivesUpAStoppedServer) {
  // The server in the other process: a client's mirror image, so the forked one listens.
  LinkPair link;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  auto pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    LinkNotes notes;
    auto server = listen_link("tcp://127.0.0.1:0", link.server_keys, notes, link.options);
    server->allow(link.client_keys.public_key, "worker");
    auto line = server->endpoint() + "\n";
    if (::write(ends[1], line.data(), line.size()) < 0) ::_exit(1);
    for (;;) ::pause();
  }
  std::string endpoint;
  for (char c; ::read(ends[0], &c, 1) == 1 && c != '\n';) endpoint += c;
  link.options.heartbeat = milliseconds(100);
  link.options.timeout = milliseconds(1000);
  link.options.handshake = milliseconds(300);
  link.connect(endpoint);
  EXPECT_TRUE(link.at_client.wait_peers(1));
  ::kill(pid, SIGSTOP);
  EXPECT_TRUE(link.at_client.wait_gone(1));
  EXPECT_EQ(link.at_client.gone[0].second, "silent for 1 s");
  // The kernel accepts connections for the stopped process; nobody answers.
  EXPECT_TRUE(eventually([&] { return link.client->trouble().find("no answer") == 0; })) << link.client->trouble();
  ::kill(pid, SIGCONT);
  EXPECT_TRUE(link.at_client.wait_peers(2));
  EXPECT_EQ(link.client->trouble(), "");
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  EXPECT_TRUE(link.at_client.wait_gone(2));
  EXPECT_EQ(link.at_client.gone[1].second, "connection closed");
  EXPECT_TRUE(eventually([&] { return link.client->trouble().find("refused by 127.0.0.1:") == 0; }))
      << link.client->trouble();
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(LinkFailure, ASlowHandlerIsNotTakenForItsPeersSilence) {
  LinkPair link;
  link.options.heartbeat = milliseconds(50);
  link.options.timeout = milliseconds(200);
  std::promise<void> release;
  auto released = release.get_future().share();
  auto begin = steady_clock::now();
  link.at_client.on_message = [&](const std::string&, const std::string& text) {
    if (text == "hold") released.wait_until(begin + milliseconds(1000));  // five times the timeout: stands still
  };
  link.open();
  ASSERT_TRUE(link.server->send("worker#1", "hold").ok());
  ASSERT_TRUE(link.at_server.wait_gone(1));  // the server is right: it hears nothing
  EXPECT_THAT(link.at_server.gone[0].second, HasSubstr("silent for 0.2 s"));
  release.set_value();
  ASSERT_TRUE(link.at_client.wait_gone(1));  // the client learns it from its connection, not from the clock
  EXPECT_THAT(link.at_client.gone[0].second, ::testing::AnyOf("connection closed", HasSubstr("given up")));
  ASSERT_TRUE(link.at_client.wait_peers(2));
}

TEST(LinkFailure, AnUnknownKeyIsRefusedAndCounted) {
  LinkPair link;
  link.open();
  LinkNotes at_stranger;
  auto stranger = make_link_keys();
  auto client = connect_link(link.server->endpoint(), link.server_keys.public_key, stranger, at_stranger);
  ASSERT_TRUE(eventually([&] { return link.server->counters().refused >= 2; }));  // it tries again
  EXPECT_TRUE(eventually([&] { return client->trouble().find("its key was rejected by 127.0.0.1:") == 0; }))
      << client->trouble();
  EXPECT_EQ(client->send("x").code, Code::peer_lost);
  EXPECT_TRUE(link.client->send("still here").ok());
  ASSERT_TRUE(link.at_server.wait_messages(1));
  EXPECT_EQ(link.at_server.peers.size(), 1u);
  link.server->allow(stranger.public_key, "late");  // from then on it may
  ASSERT_TRUE(at_stranger.wait_peers(1));
  ASSERT_TRUE(link.at_server.wait_peers(2));
  EXPECT_EQ(link.at_server.peers[1], "late#2");
}

TEST(LinkFailure, AServerWithAnotherKeyIsNotTrusted) {
  LinkPair link;
  link.listen();
  LinkNotes notes;
  auto client = connect_link(link.server->endpoint(), make_link_keys().public_key, link.client_keys, notes);
  EXPECT_TRUE(eventually([&] { return client->trouble().find("another key") != std::string::npos; }))
      << client->trouble();
  EXPECT_TRUE(eventually([&] { return link.server->counters().refused >= 1; }));
  EXPECT_TRUE(notes.peers.empty());
  EXPECT_TRUE(link.at_server.peers.empty());
}

TEST(LinkFailure, TellsWhyItIsNotConnected) {
  LinkNotes notes;
  auto keys = make_link_keys();
  auto trouble = [&](const std::string& endpoint, const std::string& expected, const LinkOptions& options = {}) {
    auto client = connect_link(endpoint, keys.public_key, keys, notes, options);
    EXPECT_TRUE(eventually([&] { return client->trouble().find(expected) != std::string::npos; }))
        << endpoint << ": " << client->trouble();
    EXPECT_EQ(client->send("x").code, Code::peer_lost);
  };
  int free = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);  // bound, not listening: refuses
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(free, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::getsockname(free, reinterpret_cast<sockaddr*>(&address), &size), 0);
  auto place = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  trouble("tcp://" + place, "refused by " + place);
  trouble("tcp://host.invalid:7700", "cannot resolve host.invalid");
  trouble("ipc:///no/such/socket", "no socket at /no/such/socket");

  ASSERT_EQ(::listen(free, 16), 0);  // accepts, by the kernel, and never says a word
  LinkOptions impatient;
  impatient.handshake = milliseconds(200);
  trouble("tcp://" + place, "no answer from " + place, impatient);
  ::close(free);
}

TEST(LinkFailure, AClientWaitsForAServerThatIsNotThereYet) {
  LinkPair link;
  auto path = std::filesystem::temp_directory_path() / ("nestor-late-" + std::to_string(::getpid()));
  auto place = "ipc://" + path.string();
  link.connect(place);
  ASSERT_TRUE(eventually([&] { return link.client->trouble().find("no socket at") == 0; })) << link.client->trouble();
  link.listen(place);
  ASSERT_TRUE(link.at_client.wait_peers(1));
  EXPECT_TRUE(link.client->send("x").ok());
  ASSERT_TRUE(link.at_server.wait_messages(1));
  EXPECT_TRUE(std::filesystem::exists(path));
  link.server.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(LinkFailure, ASocketThatAKilledServerLeftBehindIsTakenOver) {
  LinkPair link;
  auto path = std::filesystem::temp_directory_path() / ("nestor-left-" + std::to_string(::getpid()));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  int dead = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(dead);  // the file stays
  link.connect("ipc://" + path.string());
  EXPECT_TRUE(eventually([&] { return link.client->trouble().find("refused by") == 0; })) << link.client->trouble();
  link.listen("ipc://" + path.string());
  EXPECT_TRUE(link.at_client.wait_peers(1));
}

}  // namespace
}  // namespace nestor::comm
