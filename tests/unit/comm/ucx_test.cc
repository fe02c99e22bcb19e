// What the UCX backend promises beyond the conformance suite: strangers, flow control, peers, transports.
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <nestor/comm/backends/ucx/context.h>
#include <nestor/comm/backends/ucx/flow.h>
#include <nestor/comm/backends/ucx/wire.h>
#include <nestor/comm/ucx.h>

#include "ucx_peer.h"

namespace nestor::comm {
namespace {

using namespace std::chrono_literals;
using test::first;
using test::numbers;

Deadline soon() {
  return Clock::now() + 20s;
}
Deadline brief() {
  return Clock::now() + 30ms;
}

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::int64_t kMiBCount = 1 << 17;  // int64 values

class Ucx : public testing::TestWithParam<const char*> {
 protected:
  Ucx() {
    options_.transports = GetParam();
    options_.secret = 41;
    options_.window = 8 * kMiB;
  }
  void open(std::int32_t lanes) {
    for (std::int32_t lane = 0; lane < lanes; ++lane) ends_.push_back(open_ucx_channel(lane, lanes, options_));
    for (auto& end : ends_) {
      for (std::int32_t peer = 0; peer < lanes; ++peer) {
        if (end != ends_[static_cast<std::size_t>(peer)]) {
          end->set_peer(peer, ends_[static_cast<std::size_t>(peer)]->address());
        }
      }
    }
  }
  UcxChannel& end(std::size_t lane) { return *ends_[lane]; }
  Status receive(std::size_t to, std::int32_t from, const Key& key, Message* out) {
    if (Status status = end(to).post_recv(from, key); !status.ok()) return status;
    return end(to).wait(from, key, soon(), out);
  }

  UcxOptions options_;
  std::vector<std::unique_ptr<UcxChannel>> ends_;
};

/// Sends any bytes to an end, as a stranger on the network would.
class Stranger {
 public:
  explicit Stranger(const UcxOptions& options, const std::string& address) : context_(options, false) {
    ucp_worker_params_t params{};
    EXPECT_EQ(ucp_worker_create(context_.get(), &params, &worker_), UCS_OK);
    const std::string target = ucx::decode(address).worker;
    ucp_ep_params_t ep{};
    ep.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    ep.address = reinterpret_cast<const ucp_address_t*>(target.data());
    ep.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    EXPECT_EQ(ucp_ep_create(worker_, &ep, &endpoint_), UCS_OK);
  }
  ~Stranger() {
    ucp_request_param_t params{};
    finish(ucp_ep_close_nbx(endpoint_, &params));
    ucp_worker_destroy(worker_);
  }
  void send(unsigned id, const void* header, std::size_t header_length, std::size_t payload, unsigned flags = 0) {
    std::vector<std::byte> bytes(payload);
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = flags;
    finish(ucp_am_send_nbx(endpoint_, id, header, header_length, bytes.data(), payload, &params));
  }

 private:
  void finish(void* request) {
    if (!UCS_PTR_IS_PTR(request)) return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker_);
    ucp_request_free(request);
  }
  ucx::Context context_;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
};

/// Drives `end` until `done` or a hang.
template <class Done>
bool until(Channel& end, Done done) {
  const Deadline limit = soon();
  while (!done() && Clock::now() < limit) end.poll(0, {~0ULL, 0, 0});
  return done();
}

TEST_P(Ucx, AWrongSecretIsDroppedAndCounted) {
  open(2);
  UcxOptions other = options_;
  other.secret = 42;
  auto stranger = open_ucx_channel(0, 2, other);
  stranger->set_peer(1, end(1).address());
  for (std::int64_t count : {std::int64_t{1}, kMiBCount}) {  // copied, and offered
    ASSERT_TRUE(stranger->send(1, {1, 1, static_cast<std::uint64_t>(count)}, {numbers(666, count)}, soon()).ok());
  }
  EXPECT_TRUE(until(end(1), [&] { return end(1).foreign_dropped() == 2; })) << end(1).foreign_dropped();
  ASSERT_TRUE(end(0).send(1, {1, 1, 1}, {numbers(5, 1)}, soon()).ok());
  Message message;
  ASSERT_TRUE(receive(1, 0, {1, 1, 1}, &message).ok());
  EXPECT_EQ(first(message), 5);
  EXPECT_EQ(end(1).malformed_dropped(), 0u);
}

TEST_P(Ucx, MalformedMessagesAreDroppedAndCounted) {
  open(2);
  ucx::Envelope good;
  good.magic = ucx::kMagic;
  good.from = 0;
  good.secret = options_.secret;
  good.incarnation = 7;
  good.generation = 1;
  good.step = 77;
  good.parts = 1;
  good.dtype = static_cast<std::uint8_t>(DType::int64);
  good.rank = 1;
  struct Bytes {
    ucx::Envelope envelope;
    std::int64_t shape[ucx::kMaxRank + 1] = {2};
  };
  std::vector<std::pair<Bytes, std::size_t>> bad;  // with the number of payload bytes
  const auto add = [&](auto change, std::size_t payload = 16) {
    Bytes bytes{good};
    change(bytes);
    bad.emplace_back(bytes, payload);
  };
  add([](Bytes& b) { b.envelope.magic = 1; });
  add([](Bytes& b) { b.envelope.from = 0x7fffffff; });
  add([](Bytes& b) { b.envelope.from = -5; });
  add([](Bytes& b) { b.envelope.from = 1; });  // itself
  add([](Bytes& b) { b.envelope.incarnation = 0; });
  add([](Bytes& b) { b.envelope.dtype = 200; });
  add([](Bytes& b) { b.envelope.none = 2; });
  add([](Bytes& b) { b.envelope.none = 1; });  // none, with bytes
  add([](Bytes& b) { b.envelope.part = 1; });
  add([](Bytes& b) { b.envelope.parts = 0; });
  add([](Bytes& b) { b.envelope.rank = 200; });
  add([](Bytes& b) { b.shape[0] = -2; });
  add([](Bytes& b) { b.shape[0] = 3; });  // more than there is
  add([](Bytes& b) { b.envelope.rank = 2, b.shape[0] = std::int64_t{1} << 62, b.shape[1] = 16; });
  add([](Bytes& b) { b.shape[0] = 3; }, 2 * kMiB);
  Stranger stranger(options_, end(1).address());
  for (const auto& [bytes, payload] : bad) {
    const std::size_t rank = std::min<std::size_t>(bytes.envelope.rank, ucx::kMaxRank + 1);
    stranger.send(ucx::kDataId, &bytes, sizeof(ucx::Envelope) + 8 * rank, payload);
  }
  const Bytes whole{good};
  stranger.send(ucx::kDataId, &whole, 10, 16);  // torn
  stranger.send(ucx::kDataId, &whole, sizeof(ucx::Envelope), 16);
  stranger.send(ucx::kNoteId, &whole, 3, 0);
  stranger.send(ucx::kNoteId, &whole, sizeof(ucx::NoteMessage), 0);
  stranger.send(9, &whole, sizeof(whole), 16);  // no such message: UCX drops it
  const std::uint64_t expected = bad.size() + 4;
  EXPECT_TRUE(until(end(1), [&] { return end(1).malformed_dropped() == expected; })) << end(1).malformed_dropped();
  // A well-formed one of a peer nobody has heard of yet is taken: peers may send before set_peer tells us of them.
  stranger.send(ucx::kDataId, &whole, sizeof(ucx::Envelope) + 8, 16);
  Message message;
  ASSERT_TRUE(receive(1, 0, {1, 77, 0}, &message).ok());
  EXPECT_EQ(message[0].descriptor.shape, (std::vector<std::int64_t>{2}));
  stranger.send(ucx::kDataId, &whole, sizeof(ucx::Envelope) + 8, 16);  // the key again
  EXPECT_TRUE(until(end(1), [&] { return end(1).malformed_dropped() == expected + 1; }));
}

TEST_P(Ucx, ShapesOfEveryKindArrive) {
  open(2);
  Message sent;
  const auto add = [&](std::vector<std::int64_t> shape, DType dtype) {
    Buffer buffer = numbers(static_cast<std::int64_t>(sent.size()), 2 * kMiBCount);
    buffer.descriptor.shape = std::move(shape);
    buffer.descriptor.dtype = dtype;
    sent.push_back(buffer);
  };
  add({}, DType::float64);  // a scalar
  add({0}, DType::float32);
  add({std::int64_t{1} << 40, 0, std::int64_t{1} << 40}, DType::uint8);
  add({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3}, DType::bfloat16);
  add({512, 4, 128}, DType::int32);
  add({7, 13}, DType::boolean);
  add({100'001}, DType::uint8);
  sent.insert(sent.begin() + 3, Buffer{});
  ASSERT_TRUE(end(1).post_recv(0, {1, 1, 1}).ok());
  ASSERT_TRUE(end(0).send(1, {1, 1, 1}, sent, soon()).ok());
  Message got;
  ASSERT_TRUE(end(1).wait(0, {1, 1, 1}, soon(), &got).ok());
  ASSERT_EQ(got.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(got[i].none(), sent[i].none()) << i;
    EXPECT_EQ(got[i].descriptor, sent[i].descriptor) << i;
    if (sent[i].none()) continue;
    EXPECT_EQ(std::memcmp(got[i].data, sent[i].data, sent[i].descriptor.bytes()), 0) << i;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got[i].data) % 16, 0u) << i;
  }
  Buffer deep = numbers(1, 1);
  deep.descriptor.shape.assign(17, 1);
  EXPECT_EQ(end(0).send(1, {1, 1, 2}, {deep}, soon()).code, Code::misuse);
  Buffer away = numbers(1, 1);
  away.descriptor.device.kind = DeviceKind::cuda;
  EXPECT_EQ(end(0).send(1, {1, 1, 3}, {away}, soon()).code, Code::misuse);
}

TEST_P(Ucx, ManyPeersAtOnce) {
  constexpr std::int32_t kLanes = 8;
  auto fabric = make_ucx_fabric(kLanes, options_);
  std::vector<std::thread> threads;
  for (std::int32_t self = 0; self < kLanes; ++self) {
    threads.emplace_back([&, self] {
      Channel& channel = fabric->channel(self);
      for (std::uint64_t step = 0; step < 5; ++step) {
        for (std::int32_t peer = 0; peer < kLanes; ++peer) ASSERT_TRUE(channel.post_recv(peer, {1, step, 1}).ok());
        for (std::int32_t peer = 0; peer < kLanes; ++peer) {  // itself too
          ASSERT_TRUE(channel.send(peer, {1, step, 1}, {numbers(10 * self + peer, 20'000)}, soon()).ok());
        }
        for (std::int32_t peer = 0; peer < kLanes; ++peer) {
          Message message;
          const Status status = channel.wait(peer, {1, step, 1}, soon(), &message);
          ASSERT_TRUE(status.ok()) << status.message;
          ASSERT_EQ(first(message), 10 * peer + self);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Resident memory of this process, in bytes.
std::size_t resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return 1024 * std::stoull(line.substr(6));
  }
  return 0;
}

TEST_P(Ucx, ASenderWaitsForASlowReceiverAndMemoryIsBounded) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have memory of their own";
#endif
  open(2);
  for (const std::int64_t count : {std::int64_t{100}, kMiBCount / 16, 2 * kMiBCount}) {
    const auto tag = static_cast<std::uint64_t>(count);
    const std::size_t before = resident();
    const Buffer buffer = numbers(count, count);  // one buffer, so that only the channel's own memory grows
    const std::size_t bytes = buffer.descriptor.bytes();
    std::uint64_t sent = 0;
    Status status;
    while (status.ok()) {
      status = end(0).send(1, {1, sent, tag}, {buffer}, Clock::now() + 200ms);
      if (status.ok()) ++sent;
      ASSERT_LT(sent * bytes, 40 * options_.window) << "nobody takes it";
    }
    EXPECT_EQ(status.code, Code::deadline) << status.message;
    EXPECT_NE(status.message.find("post its receives"), std::string::npos) << status.message;
    EXPECT_LE(sent * bytes, 2 * options_.window) << "what is under way and what has arrived, a window each";
    EXPECT_GE(sent * (bytes + ucx::kMessageCost), options_.window / 2) << "of " << count;
    EXPECT_LE(resident() - std::min(before, resident()), 4 * options_.window + 8 * kMiB);
    for (std::uint64_t i = 0; i < sent; ++i) {  // now it takes: nothing was lost, in order or not
      Message message;
      const std::uint64_t step = i % 2 == 0 ? i / 2 : sent - 1 - i / 2;
      status = receive(1, 0, {1, step, tag}, &message);
      ASSERT_TRUE(status.ok()) << status.message;
      ASSERT_EQ(first(message), count);
    }
    EXPECT_TRUE(end(0).send(1, {2, 0, tag}, {buffer}, soon()).ok()) << "there is room again";
    Message message;
    ASSERT_TRUE(receive(1, 0, {2, 0, tag}, &message).ok());
  }
}

TEST_P(Ucx, TwoLanesThatPostFirstSendAnyAmountToEachOther) {
  open(2);
  constexpr std::uint64_t kMessages = 40;  // 80 MiB each way through windows of 8
  std::vector<std::thread> threads;
  for (std::size_t self : {0u, 1u}) {
    threads.emplace_back([&, self] {
      const auto peer = static_cast<std::int32_t>(1 - self);
      for (std::uint64_t i = 0; i < kMessages; ++i) ASSERT_TRUE(end(self).post_recv(peer, {1, i, 0}).ok());
      for (std::uint64_t i = 0; i < kMessages; ++i) {
        const Buffer buffer = numbers(static_cast<std::int64_t>(i), i % 3 == 0 ? 1000 : 2 * kMiBCount);
        const Status status = end(self).send(peer, {1, i, 0}, {buffer}, soon());
        ASSERT_TRUE(status.ok()) << status.message;
      }
      for (std::uint64_t i = 0; i < kMessages; ++i) {
        Message message;
        const Status status = end(self).wait(peer, {1, i, 0}, soon(), &message);
        ASSERT_TRUE(status.ok()) << status.message;
        ASSERT_EQ(first(message), static_cast<std::int64_t>(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Ucx, AWaitForALaterKeyLetsTheSenderPastItsWindow) {
  open(2);
  constexpr std::uint64_t kMessages = 20;  // 40 MiB, nothing of it posted but the last
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      const Status status = end(0).send(1, {1, i, 0}, {numbers(static_cast<std::int64_t>(i), 2 * kMiBCount)}, soon());
      ASSERT_TRUE(status.ok()) << i << ": " << status.message;
    }
  });
  for (std::uint64_t i = kMessages; i-- > 0;) {
    Message message;
    const Status status = receive(1, 0, {1, i, 0}, &message);
    ASSERT_TRUE(status.ok()) << i << ": " << status.message;
    ASSERT_EQ(first(message), static_cast<std::int64_t>(i));
  }
  sender.join();
}

TEST_P(Ucx, AbortsAndGenerationsDuringRendezvous) {
  open(2);
  for (std::uint64_t generation = 1; generation <= 30; ++generation) {
    std::latch started(1);
    std::vector<std::weak_ptr<const void>> memory;
    std::thread sender([&] {
      Status status;
      for (std::uint64_t i = 0; status.ok(); ++i) {
        Message message{numbers(static_cast<std::int64_t>(generation), kMiBCount)};
        memory.push_back(message[0].owner);
        status = end(0).send(1, {generation, i, 0}, std::move(message), soon());
        if (i == 2) started.count_down();
      }
      EXPECT_EQ(status.code, Code::aborted) << status.message;
    });
    std::thread aborter([&] {
      started.wait();
      for (std::size_t lane : {generation % 2, 1 - generation % 2}) end(lane).abort(generation, "test");
    });
    Status status;
    for (std::uint64_t i = 0; status.ok(); ++i) {
      Message message;
      status = receive(1, 0, {generation, i, 0}, &message);
      if (status.ok()) {
        ASSERT_EQ(static_cast<const std::int64_t*>(message[0].data)[kMiBCount - 1],
                  static_cast<std::int64_t>(generation));
      }
    }
    EXPECT_EQ(status.code, Code::aborted) << status.message;
    sender.join();
    aborter.join();
    const auto free = [&] {
      for (const auto& owner : memory) {
        if (!owner.expired()) return false;
      }
      return true;
    };
    EXPECT_TRUE(until(end(1), free)) << "what the receiver dropped, the sender may reuse";
  }
}

TEST_P(Ucx, ADroppedPeerIsLostAndComesBackBySetPeer) {
  open(3);
  Message message;
  ASSERT_TRUE(end(0).send(1, {1, 1, 1}, {numbers(1, 1)}, soon()).ok());
  ASSERT_TRUE(receive(1, 0, {1, 1, 1}, &message).ok());
  ASSERT_TRUE(end(0).post_recv(1, {1, 2, 1}).ok());
  std::latch waiting(1);
  std::thread dropper([&] {
    waiting.wait();
    end(0).drop_peer(1, "its host is gone");
  });
  waiting.count_down();
  Status status = end(0).wait(1, {1, 2, 1}, soon(), &message);
  dropper.join();
  EXPECT_EQ(status.code, Code::peer_lost);
  EXPECT_NE(status.message.find("its host is gone"), std::string::npos) << status.message;
  EXPECT_EQ(end(0).send(1, {1, 2, 2}, {}, soon()).code, Code::peer_lost);
  EXPECT_TRUE(end(0).poll(1, {1, 2, 1})) << "wait answers at once";
  ASSERT_TRUE(end(0).send(2, {1, 1, 1}, {numbers(2, kMiBCount)}, soon()).ok()) << "others go on";
  ASSERT_TRUE(receive(2, 0, {1, 1, 1}, &message).ok());

  ends_[1] = open_ucx_channel(1, 3, options_);  // its successor
  end(1).set_peer(0, end(0).address());
  end(0).set_peer(1, end(1).address());
  ASSERT_TRUE(end(0).send(1, {1, 3, 1}, {numbers(3, kMiBCount)}, soon()).ok());
  ASSERT_TRUE(receive(1, 0, {1, 3, 1}, &message).ok());
  EXPECT_EQ(first(message), 3);
  ASSERT_TRUE(end(1).send(0, {1, 2, 1}, {numbers(4, 1)}, soon()).ok());
  ASSERT_TRUE(end(0).wait(1, {1, 2, 1}, soon(), &message).ok()) << "its receive stayed posted";
}

TEST_P(Ucx, APeerThatLeavesInOrderSaysSo) {
  open(2);
  ASSERT_TRUE(end(0).send(1, {1, 1, 1}, {numbers(1, 1000)}, soon()).ok());
  ends_[0].reset();
  Message message;
  ASSERT_TRUE(receive(1, 0, {1, 1, 1}, &message).ok()) << "what it sent before is there";
  ASSERT_TRUE(end(1).post_recv(0, {1, 1, 2}).ok());
  const Status status = end(1).wait(0, {1, 1, 2}, soon(), &message);
  EXPECT_EQ(status.code, Code::peer_lost);
  EXPECT_NE(status.message.find("has left"), std::string::npos) << status.message;
}

TEST_P(Ucx, TransportsAreWhatWasAskedFor) {
  open(2);
  ASSERT_TRUE(end(0).send(1, {1, 1, 1}, {numbers(1, 1)}, soon()).ok());
  Message message;
  ASSERT_TRUE(receive(1, 0, {1, 1, 1}, &message).ok());
  const std::string used = end(0).transports();
  if (std::string(GetParam()).starts_with("tcp")) {
    EXPECT_TRUE(used.starts_with("tcp/")) << used;
    EXPECT_EQ(used.find("posix"), std::string::npos) << used;
  } else {
    EXPECT_EQ(used, "cma posix") << "large messages by one copy";
  }
}

/// Ports that this process listens on.
std::set<int> listening() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  std::set<int> ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string index, local, remote, state, queue, timer, retransmit, uid, timeout, inode;
      words >> index >> local >> remote >> state >> queue >> timer >> retransmit >> uid >> timeout >> inode;
      if (state == "0A" && own.count(inode) != 0)
        ports.insert(std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

TEST(UcxSettings, SharedMemoryOpensNoPortAndTcpStaysInItsRange) {
  const std::set<int> before = listening();
  UcxOptions options;
  options.transports = "posix,cma,self";
  auto shared = open_ucx_channel(0, 2, options);
  EXPECT_EQ(listening(), before);
  options.transports = "tcp,self";
  options.net_devices = "lo";
  options.port_range = "47310-47390";
  auto tcp = open_ucx_channel(0, 2, options);
  std::set<int> opened = listening();
  for (int port : before) opened.erase(port);
  EXPECT_EQ(opened.size(), 1u) << "one device, one port";
  for (int port : opened) {
    EXPECT_GE(port, 47310);
    EXPECT_LE(port, 47390);
  }
}

TEST(UcxSettings, WhatIsNotThereIsRefusedWithWhatIs) {
  const auto reason = [](const UcxOptions& options) -> std::string {
    try {
      open_ucx_channel(0, 2, options);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return {};
  };
  UcxOptions options;
  options.transports = "tcp,self";
  for (const char* name : {"eth77", "../lo", "lo,eth77", ".."}) {
    options.net_devices = name;
    EXPECT_NE(reason(options).find("no network device"), std::string::npos) << name << ": " << reason(options);
    EXPECT_NE(reason(options).find("lo"), std::string::npos);
  }
  options.net_devices = "lo";
  EXPECT_EQ(reason(options), "");
  options.net_devices.clear();
  for (const char* name : {"warp", "tcp,warp", "self", "cma,self"}) {
    options.transports = name;
    EXPECT_NE(reason(options).find("transport"), std::string::npos) << name << ": " << reason(options);
  }
}

TEST(UcxSettings, AddressesAreCheckedBeforeTheyAreUsed) {
  UcxOptions options;
  options.transports = "posix,cma,self";
  auto a = open_ucx_channel(0, 3, options), b = open_ucx_channel(1, 3, options);
  const std::string good = b->address();
  EXPECT_THROW(a->set_peer(1, ""), std::invalid_argument);
  EXPECT_THROW(a->set_peer(1, good.substr(0, good.size() - 1)), std::invalid_argument);
  EXPECT_THROW(a->set_peer(1, std::string(300, 'x')), std::invalid_argument);
  for (std::size_t i = 40; i < good.size(); i += 7) {
    std::string torn = good;
    torn[i] = static_cast<char>(torn[i] ^ 4);
    EXPECT_THROW(a->set_peer(1, torn), std::invalid_argument) << i;
  }
  EXPECT_THROW(a->set_peer(2, good), std::invalid_argument) << "another lane's";
  EXPECT_THROW(a->set_peer(0, a->address()), std::invalid_argument);
  EXPECT_THROW(a->set_peer(3, good), std::invalid_argument);
  EXPECT_EQ(a->send(1, {1, 1, 1}, {}, soon()).code, Code::misuse) << "no address yet";
  a->set_peer(1, good);
  a->set_peer(1, good);  // again: nothing happens
  ASSERT_TRUE(b->post_recv(0, {1, 1, 1}).ok());
  ASSERT_TRUE(a->send(1, {1, 1, 1}, {}, soon()).ok());
  Message message;
  EXPECT_TRUE(b->wait(0, {1, 1, 1}, soon(), &message).ok());
}

TEST_P(Ucx, WhatAComputingLaneIsSentArrivesMeanwhile) {
  open(2);
  // Lane 1 makes no call at all: its helper answers the rendezvous, so that the sender's memory becomes free.
  ASSERT_TRUE(end(1).post_recv(0, {1, 1, 1}).ok());
  Message message{numbers(8, 2 * kMiBCount)};
  const std::weak_ptr<const void> memory = message[0].owner;
  ASSERT_TRUE(end(0).send(1, {1, 1, 1}, std::move(message), soon()).ok());
  EXPECT_TRUE(until(end(0), [&] { return memory.expired(); }));
  EXPECT_TRUE(end(1).wait(0, {1, 1, 1}, brief(), &message).ok());
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, Ucx, testing::Values("posix,cma,self"));
INSTANTIATE_TEST_SUITE_P(Tcp, Ucx, testing::Values("tcp,self"));

}  // namespace
}  // namespace nestor::comm
