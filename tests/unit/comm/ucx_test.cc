// What the UCX backend promises beyond the conformance suite: strangers, shapes, peers, transports.
#include <cstring>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <nestor/comm/backends/ucx/context.h>
#include <nestor/comm/backends/ucx/wire.h>
#include <nestor/comm/ucx.h>

#include "ucx_ends.h"
#include "ucx_peer.h"

namespace nestor::comm {
namespace {

using test::first;
using test::kMiB;
using test::kMiBCount;
using test::numbers;
using test::soon;
using test::until;

using Ucx = test::UcxEnds;

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

/// Of a size that stays in the transport's memory. Far more than may be lent at once.
TEST_P(Ucx, MessagesAreDroppedOnAnyThreadAndOutliveTheirChannel) {
  open(2);
  constexpr std::int64_t kCount = 256;
  constexpr std::uint64_t kMessages = 400;
  for (std::uint64_t i = 0; i < kMessages; ++i) ASSERT_TRUE(end(1).post_recv(0, {1, i, 1}).ok());
  std::vector<Message> kept(kMessages);
  std::vector<std::thread> threads;
  const auto intact = [](const Message& message, std::uint64_t i) {
    const auto* values = static_cast<const std::int64_t*>(message[0].data);
    for (std::int64_t k = 0; k < kCount; ++k) ASSERT_EQ(values[k], static_cast<std::int64_t>(i));
  };
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(end(0).send(1, {1, i, 1}, {numbers(static_cast<std::int64_t>(i), kCount)}, soon()).ok());
    ASSERT_TRUE(end(1).wait(0, {1, i, 1}, soon(), &kept[i]).ok());
    if (i % 100 != 99) continue;  // half of them go, from two threads, while others arrive; the rest stay
    for (std::uint64_t rest : {1, 2}) {
      threads.emplace_back([&, i, rest] {
        for (std::uint64_t k = i - 99 + rest; k <= i; k += 4) {
          intact(kept[k], k);
          kept[k].clear();
        }
      });
    }
  }
  ends_.clear();  // some are still being dropped
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  for (std::uint64_t rest : {0, 3}) {
    threads.emplace_back([&, rest] {
      for (std::uint64_t k = rest; k < kMessages; k += 4) {
        intact(kept[k], k);
        kept[k].clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
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

INSTANTIATE_TEST_SUITE_P(SharedMemory, Ucx, testing::Values("posix,cma,self"));
INSTANTIATE_TEST_SUITE_P(Tcp, Ucx, testing::Values("tcp,self"));

}  // namespace
}  // namespace nestor::comm
