#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <unistd.h>

#include "link_testing.h"

namespace nestor::comm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::string number(int i) {
  return "message " + std::to_string(i);
}

class LinkTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string endpoint() const {
    if (std::string(GetParam()) == "tcp") return "tcp://127.0.0.1:0";
    return "ipc://" + (std::filesystem::temp_directory_path() / ("nestor-link-" + std::to_string(::getpid()))).string();
  }
  LinkPair link;
};

TEST_P(LinkTest, KeepsTheOrderOfManyMessagesBothWaysAtOnce) {
  link.open(endpoint());
  constexpr int kCount = 20'000;
  const auto peer = link.at_server.peers[0];
  std::thread down([&] {
    for (int i = 0; i < kCount; ++i) ASSERT_TRUE(link.server->send(peer, number(i)).ok());
  });
  for (int i = 0; i < kCount; ++i) ASSERT_TRUE(link.client->send(number(i)).ok());
  down.join();
  ASSERT_TRUE(link.at_server.wait_messages(kCount));
  ASSERT_TRUE(link.at_client.wait_messages(kCount));
  for (int i = 0; i < kCount; ++i) {
    ASSERT_EQ(link.at_server.messages[static_cast<std::size_t>(i)].text, number(i));
    ASSERT_EQ(link.at_client.messages[static_cast<std::size_t>(i)].text, number(i));
  }
  EXPECT_EQ(link.at_server.messages[0].peer, "worker#1");
  EXPECT_EQ(link.at_client.messages[0].peer, "server");
  EXPECT_EQ(link.server->counters().sent, static_cast<std::uint64_t>(kCount));
  EXPECT_EQ(link.server->counters().received, static_cast<std::uint64_t>(kCount));
  EXPECT_EQ(link.server->counters().refused, 0u);
  EXPECT_EQ(link.client->trouble(), "");
}

TEST_P(LinkTest, CarriesAnyBytesOfAnyLength) {
  link.open(endpoint());
  std::vector<std::size_t> sizes{0, 1, 29, 30, 31, 255, 256, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, 3 << 20};
  std::vector<std::string> sent;
  for (auto size : sizes) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + size);
    ASSERT_TRUE(link.client->send(text).ok());
    ASSERT_TRUE(link.server->send("worker#1", text).ok());
    sent.push_back(std::move(text));
  }
  ASSERT_TRUE(link.at_server.wait_messages(sizes.size()));
  ASSERT_TRUE(link.at_client.wait_messages(sizes.size()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_TRUE(link.at_server.messages[i].text == sent[i]) << sizes[i];
    EXPECT_TRUE(link.at_client.messages[i].text == sent[i]) << sizes[i];
  }
}

TEST_P(LinkTest, AnswersFromItsHandler) {
  link.listen(endpoint());
  link.at_server.on_message = [&](const std::string& peer, const std::string& text) {
    EXPECT_TRUE(link.server->send(peer, "re: " + text).ok());
  };
  link.at_client.on_message = [&](const std::string&, const std::string& text) {
    if (text.size() < 100) {
      EXPECT_TRUE(link.client->send(text).ok());
    }
  };
  link.connect();
  ASSERT_TRUE(link.at_client.wait_peers(1));
  ASSERT_TRUE(link.client->send("x").ok());
  EXPECT_TRUE(link.at_client.wait(
      [&] { return !link.at_client.messages.empty() && link.at_client.messages.back().text.size() >= 100; }));
}

TEST_P(LinkTest, SaysGoodbyeFromEitherEnd) {
  link.open(endpoint());
  ASSERT_TRUE(link.client->send("last words").ok());
  link.client.reset();
  ASSERT_TRUE(link.at_server.wait_gone(1));
  EXPECT_EQ(link.at_server.gone[0], std::make_pair(std::string("worker#1"), std::string("left")));
  ASSERT_EQ(link.at_server.messages.size(), 1u);  // before `lost`
  EXPECT_EQ(link.at_server.messages[0].text, "last words");
  EXPECT_EQ(link.server->send("worker#1", "x").code, Code::peer_lost);

  link.connect();
  ASSERT_TRUE(link.at_server.wait_peers(2));
  EXPECT_EQ(link.at_server.peers[1], "worker#2");
  ASSERT_TRUE(link.server->send("worker#2", "last words").ok());
  link.server.reset();
  ASSERT_TRUE(link.at_client.wait_gone(1));
  EXPECT_EQ(link.at_client.gone[0], std::make_pair(std::string("server"), std::string("left")));
  EXPECT_EQ(link.at_client.messages.back().text, "last words");
  EXPECT_EQ(link.client->send("x").code, Code::peer_lost);
}

TEST_P(LinkTest, ComesBackWhenTheServerRestarts) {
  link.open(endpoint());
  const auto place = link.server->endpoint();
  for (std::size_t round = 2; round < 5; ++round) {
    link.server.reset();
    ASSERT_TRUE(link.at_client.wait_gone(round - 1));
    link.listen(place);
    ASSERT_TRUE(link.at_client.wait_peers(round));
    ASSERT_TRUE(link.at_server.wait_peers(round));
    ASSERT_TRUE(link.client->send(number(static_cast<int>(round))).ok());
    ASSERT_TRUE(link.at_server.wait_messages(round - 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Link, LinkTest, ::testing::Values("tcp", "ipc"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Link, NumbersPeersAndClosesThemOneByOne) {
  LinkPair link;
  auto other_keys = make_link_keys();
  link.open();
  link.server->allow(other_keys.public_key, "other");
  LinkNotes at_other;
  auto other = connect_link(link.server->endpoint(), link.server_keys.public_key, other_keys, at_other);
  ASSERT_TRUE(link.at_server.wait_peers(2));
  ASSERT_TRUE(at_other.wait_peers(1));
  EXPECT_EQ(link.at_server.peers[1], "other#2");

  link.server->close("worker#1");
  EXPECT_EQ(link.server->send("worker#1", "x").code, Code::peer_lost);
  ASSERT_TRUE(link.at_client.wait_gone(1));
  EXPECT_EQ(link.at_client.gone[0].second, "left");
  ASSERT_TRUE(link.at_server.wait_gone(1));
  EXPECT_EQ(link.at_server.gone[0], std::make_pair(std::string("worker#1"), std::string("left")));
  ASSERT_TRUE(link.at_server.wait_peers(3));  // it may come again
  EXPECT_EQ(link.at_server.peers[2], "worker#3");
  EXPECT_TRUE(link.server->send("other#2", "x").ok());
  ASSERT_TRUE(at_other.wait_messages(1));
  EXPECT_TRUE(at_other.gone.empty());
}

TEST(Link, RefusesATooLargeMessageAndAFullQueue) {
  LinkPair link;
  link.options.max_message = 1 << 20;
  link.options.queue = 8;
  link.options.timeout = std::chrono::seconds(60);  // the client's thread is going to stand still
  std::mutex gate;
  std::unique_lock closed(gate, std::defer_lock);
  link.at_client.on_message = [&](const std::string&, const std::string&) { std::lock_guard wait(gate); };
  link.open();
  std::string large((1 << 20) + 1, 'x');
  EXPECT_EQ(link.client->send(large).code, Code::misuse);
  auto status = link.server->send("worker#1", large);
  EXPECT_EQ(status.code, Code::misuse);
  EXPECT_THAT(status.message, HasSubstr("1048577 bytes"));
  large.pop_back();
  EXPECT_TRUE(link.client->send(large).ok());
  ASSERT_TRUE(link.at_server.wait_messages(1));
  EXPECT_EQ(link.server->send("nobody", "x").code, Code::peer_lost);

  closed.lock();
  std::size_t accepted = 0;
  const std::string block(200'000, 'y');
  for (status = {}; accepted < 10'000; ++accepted) {
    status = link.server->send("worker#1", block);
    if (!status.ok()) break;
  }
  EXPECT_EQ(status.code, Code::misuse);
  EXPECT_THAT(status.message, HasSubstr("worker#1: its queue is full"));
  EXPECT_LT(accepted, 1000u);  // some 10 MB of kernel buffers, and two queues of 8
  closed.unlock();
  ASSERT_TRUE(link.at_client.wait_messages(accepted));  // all that was accepted arrives
  EXPECT_TRUE(link.server->send("worker#1", "again").ok());
  ASSERT_TRUE(link.at_client.wait_messages(accepted + 1));
  EXPECT_EQ(link.at_client.messages.back().text, "again");
}

TEST(Link, ALongMessageThatDoesNotFitTheQueueIsNotDeliveredInPart) {
  LinkPair link;
  link.options.queue = 8;  // 16 fragments do not fit
  link.options.timeout = std::chrono::seconds(60);
  std::mutex gate;
  std::unique_lock closed(gate, std::defer_lock);
  link.at_client.on_message = [&](const std::string&, const std::string&) { std::lock_guard wait(gate); };
  link.open();
  closed.lock();
  const std::string block(4 << 20, 'y');
  std::size_t accepted = 0;
  Status status;
  for (; accepted < 1000; ++accepted) {
    status = link.server->send("worker#1", block);
    if (!status.ok()) break;
  }
  EXPECT_EQ(status.code, Code::misuse);
  closed.unlock();
  ASSERT_TRUE(eventually([&] { return link.server->send("worker#1", "end").ok(); }));
  ASSERT_TRUE(link.at_client.wait([&] { return link.at_client.messages.size() == accepted + 1; }));
  for (std::size_t i = 0; i < accepted; ++i) EXPECT_TRUE(link.at_client.messages[i].text == block);
  EXPECT_EQ(link.at_client.messages[accepted].text, "end");
}

TEST(Link, IsDestroyedWhileMessagesFlow) {
  for (int round = 0; round < 10; ++round) {
    LinkPair link;
    link.open();
    std::atomic<bool> stop = false;
    std::thread up([&] {
      while (!stop) {
        auto status = link.client->send("up");
        if (status.code == Code::peer_lost) break;
      }
    });
    std::thread down([&, peer = link.at_server.peers[0]] {
      while (!stop) {
        auto status = link.server->send(peer, "down");
        if (status.code == Code::peer_lost) break;
      }
    });
    ASSERT_TRUE(link.at_server.wait_messages(100));
    ASSERT_TRUE(link.at_client.wait_messages(100));
    if (round % 2 == 0) {
      link.server->close("worker#1");
      down.join();
      stop = true;
      up.join();
      link.client.reset();
    } else {
      stop = true;
      up.join();
      down.join();
      link.server.reset();
    }
  }
}

TEST(Link, SignalsDoNotDisturbASender) {
  LinkPair link;
  link.open();
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};  // without SA_RESTART
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> stop = false;
  std::thread shooter([&, target = ::pthread_self()] {
    while (!stop) ::pthread_kill(target, SIGUSR1);
  });
  constexpr std::size_t kCount = 20'000;
  std::size_t failed = 0;
  for (std::size_t i = 0; i < kCount; ++i) failed += link.client->send("x").ok() ? 0 : 1;
  stop = true;
  shooter.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(failed, 0u);
  EXPECT_TRUE(link.at_server.wait_messages(kCount));
}

TEST(Link, NamesAnEndpointThatCannotBeUsed) {
  LinkNotes notes;
  auto keys = make_link_keys();
  auto refusal = [&](const std::string& endpoint) -> std::string {
    try {
      listen_link(endpoint, keys, notes);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  };
  auto server = listen_link("tcp://127.0.0.1:0", keys, notes);
  EXPECT_THAT(refusal(server->endpoint()), HasSubstr(server->endpoint()));
  EXPECT_THAT(refusal("tcp://127.0.0.1:99999"), HasSubstr("99999"));
  EXPECT_THAT(refusal("udp://127.0.0.1:1"), HasSubstr("udp://127.0.0.1:1"));
  EXPECT_THAT(refusal("tcp://host.invalid:1"), HasSubstr("cannot resolve host.invalid"));
  EXPECT_THAT(refusal("ipc://" + std::string(200, 'x')), HasSubstr("1 to 107 bytes"));
  EXPECT_THAT(refusal("ipc:///no/such/folder/socket"), HasSubstr("/no/such/folder/socket"));
  auto place =
      "ipc://" + (std::filesystem::temp_directory_path() / ("nestor-taken-" + std::to_string(::getpid()))).string();
  auto first = listen_link(place, keys, notes);
  EXPECT_THAT(refusal(place), HasSubstr("another process listens there"));
  EXPECT_THROW(connect_link("tcp://127.0.0.1", keys.public_key, keys, notes), std::runtime_error);
  EXPECT_THROW(connect_link("tcp://127.0.0.1:1", "short", keys, notes), std::runtime_error);
}

}  // namespace
}  // namespace nestor::comm
