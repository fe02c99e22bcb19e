#include "ucx_peer.h"

#include <csignal>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nestor::comm::test {

namespace {

constexpr const char* kOrders = "NESTOR_TEST_UCX_PEER";

void exchange(int socket, const std::string& mine, std::string* theirs) {
  char text[8192];
  ASSERT_EQ(write(socket, mine.data(), mine.size()), static_cast<ssize_t>(mine.size()));
  const ssize_t length = read(socket, text, sizeof(text));
  ASSERT_GT(length, 0) << "the other process ended";
  theirs->assign(text, static_cast<std::size_t>(length));
}

bool told_to_end(int socket) {
  char byte;
  return recv(socket, &byte, 1, MSG_DONTWAIT) == 0;
}

/// Until the other side closes the socket, or an error.
void obey(UcxChannel& channel, std::int32_t lane, const std::string& orders, std::uint64_t generation, int socket) {
  const auto tag = static_cast<std::uint64_t>(lane);
  const auto soon = [] { return Clock::now() + std::chrono::milliseconds(200); };
  const auto receive = [&](const Key& key, Message* message) {
    Status status = channel.post_recv(0, key);
    while (status.ok() || status.code == Code::deadline) {
      if (told_to_end(socket)) return Status{Code::aborted, "told to end"};
      status = channel.wait(0, key, soon(), message);
      if (status.ok()) break;
    }
    return status;
  };
  for (std::uint64_t i = 0; !told_to_end(socket); ++i) {
    Message message;
    Status status;
    if (orders == "stream") {
      do {
        status = channel.send(0, {generation, i, tag}, {numbers(static_cast<std::int64_t>(i), kStreamCount)}, soon());
      } while (status.code == Code::deadline && !told_to_end(socket));
    } else {
      status = receive({generation, i, tag}, &message);
      if (status.ok() && orders == "echo")
        status = channel.send(0, {generation, i, tag + 100}, std::move(message), soon());
    }
    if (!status.ok()) return;
  }
}

}  // namespace

Buffer numbers(std::int64_t value, std::int64_t count) {
  auto memory = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(count), value);
  Buffer buffer;
  buffer.descriptor = {DType::int64, Device{}, {count}};
  buffer.data = memory->data();
  buffer.owner = std::move(memory);
  return buffer;
}

std::int64_t first(const Message& message) {
  return *static_cast<const std::int64_t*>(message.at(0).data);
}

PeerProcess::PeerProcess(std::int32_t lane, const std::string& orders, const UcxOptions& options, UcxChannel& ours,
                         std::uint64_t generation) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) throw std::runtime_error("socketpair");
  std::ostringstream text;
  text << sockets[1] << ' ' << lane << ' ' << orders << ' ' << options.transports << ' ' << options.secret << ' '
       << options.window << ' ' << options.stall.count() << ' ' << generation;
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  variables.push_back(std::string(kOrders) + "=" + text.str());
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::vector<std::string> words = {"/proc/self/exe", "--gtest_filter=UcxPeer.DISABLED_Main",
                                    "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fcntl(sockets[1], F_SETFD, 0);
    execve("/proc/self/exe", arguments.data(), environment.data());
    _exit(127);
  }
  close(sockets[1]);
  socket_ = sockets[0];
  std::string theirs;
  exchange(socket_, ours.address(), &theirs);
  ours.set_peer(lane, theirs);
}

PeerProcess::~PeerProcess() {
  close(socket_);
  if (pid_ > 0) signal(SIGKILL);
  reap();
}

void PeerProcess::signal(int number) const {
  kill(pid_, number);
}

void PeerProcess::reap() {
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

TEST(UcxPeer, DISABLED_Main) {
  const char* orders = std::getenv(kOrders);
  if (orders == nullptr) GTEST_SKIP() << "runs as another test's peer";
  std::istringstream words(orders);
  int socket;
  std::int32_t lane;
  std::string what;
  UcxOptions options;
  std::int64_t stall;
  std::uint64_t generation;
  words >> socket >> lane >> what >> options.transports >> options.secret >> options.window >> stall >> generation;
  options.stall = std::chrono::milliseconds(stall);
  auto channel = open_ucx_channel(lane, 3, options);
  std::string theirs;
  exchange(socket, channel->address(), &theirs);
  channel->set_peer(0, theirs);
  obey(*channel, lane, what, generation, socket);
}

}  // namespace nestor::comm::test
