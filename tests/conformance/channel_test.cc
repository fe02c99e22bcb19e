// Messages: matching by key, contents, ownership, counters, misuse.
#include <algorithm>
#include <numeric>
#include <random>

#include "channel_suite.h"

namespace nestor::comm {

TEST_P(ChannelConformance, ReceivesTakeTheirOwnKeyInAnyOrder) {
  auto lanes = fabric(2);
  Channel &a = lanes->channel(0), &b = lanes->channel(1);
  std::vector<std::uint64_t> sent(100), wanted(100);
  std::iota(sent.begin(), sent.end(), 0);
  wanted = sent;
  std::mt19937 random(7);
  std::shuffle(sent.begin(), sent.end(), random);
  std::shuffle(wanted.begin(), wanted.end(), random);
  for (std::size_t i = 0; i < 50; ++i) ASSERT_TRUE(b.post_recv(0, {1, 1, wanted[i]}).ok());  // half before, half after
  for (std::uint64_t tag : sent) {
    ASSERT_TRUE(a.send(1, {1, 1, tag}, {numbers(static_cast<std::int64_t>(tag))}, soon()).ok());
  }
  for (std::size_t i = 50; i < 100; ++i) ASSERT_TRUE(b.post_recv(0, {1, 1, wanted[i]}).ok());
  for (std::uint64_t tag : wanted) {
    Message message;
    ASSERT_TRUE(b.wait(0, {1, 1, tag}, soon(), &message).ok());
    EXPECT_EQ(first(message), static_cast<std::int64_t>(tag));
  }
}

TEST_P(ChannelConformance, EveryFieldOfAKeyAndTheSenderCount) {
  auto lanes = fabric(3);
  const std::vector<Key> keys = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1ULL << 63, 1, 1}, {1, ~0ULL, ~0ULL}};
  for (std::int32_t from : {0, 1}) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto value = static_cast<std::int64_t>(100 * from + static_cast<int>(i));
      ASSERT_TRUE(lanes->channel(from).send(2, keys[i], {numbers(value)}, soon()).ok());
    }
  }
  for (std::size_t i = keys.size(); i-- > 0;) {
    for (std::int32_t from : {0, 1}) {
      Message message;
      ASSERT_TRUE(receive(lanes->channel(2), from, keys[i], &message).ok());
      EXPECT_EQ(first(message), 100 * from + static_cast<int>(i));
    }
  }
}

TEST_P(ChannelConformance, TwoLanesThatAreBothNeighboursNeverSwap) {
  // P = 2, V = 2: lane 1 is both the next and the previous lane; activation and gradient differ by tag alone.
  auto lanes = fabric(2);
  constexpr std::uint64_t kActivation = 0, kGradient = 1;
  for (std::uint64_t m = 0; m < 8; ++m) {
    const auto value = static_cast<std::int64_t>(m);
    for (std::int32_t lane : {0, 1}) {
      Channel& channel = lanes->channel(lane);
      ASSERT_TRUE(channel.send(1 - lane, {1, m, kGradient}, {numbers(1000 + value)}, soon()).ok());
      ASSERT_TRUE(channel.send(1 - lane, {1, m, kActivation}, {numbers(value)}, soon()).ok());
    }
    for (std::int32_t lane : {0, 1}) {
      Message activation, gradient;
      ASSERT_TRUE(receive(lanes->channel(lane), 1 - lane, {1, m, kActivation}, &activation).ok());
      ASSERT_TRUE(receive(lanes->channel(lane), 1 - lane, {1, m, kGradient}, &gradient).ok());
      EXPECT_EQ(first(activation), value);
      EXPECT_EQ(first(gradient), 1000 + value);
    }
  }
}

TEST_P(ChannelConformance, ManyPeers) {
  constexpr std::int32_t kLanes = 16;
  auto lanes = fabric(kLanes);
  EXPECT_EQ(lanes->lanes(), kLanes);
  for (std::int32_t from = 0; from < kLanes; ++from) {
    for (std::int32_t to = 0; to < kLanes; ++to) {
      if (from == to) continue;
      ASSERT_TRUE(lanes->channel(from).send(to, {1, 1, 1}, {numbers(100 * from + to)}, soon()).ok());
    }
  }
  for (std::int32_t to = 0; to < kLanes; ++to) {
    for (std::int32_t from = kLanes; from-- > 0;) {
      if (from == to) continue;
      Message message;
      ASSERT_TRUE(receive(lanes->channel(to), from, {1, 1, 1}, &message).ok());
      EXPECT_EQ(first(message), 100 * from + to);
    }
  }
}

TEST_P(ChannelConformance, ContentsArriveAsTheyWere) {
  auto lanes = fabric(2);
  Buffer empty = numbers(0, 0);
  empty.descriptor.shape = {4, 0, 3};
  Buffer shaped = numbers(9, 6);
  shaped.descriptor.shape = {2, 3};
  ASSERT_TRUE(lanes->channel(0).send(1, {1, 1, 1}, {Buffer{}, empty, shaped}, soon()).ok());
  ASSERT_TRUE(lanes->channel(0).send(1, {1, 1, 2}, {}, soon()).ok());
  Message message;
  ASSERT_TRUE(receive(lanes->channel(1), 0, {1, 1, 1}, &message).ok());
  ASSERT_EQ(message.size(), 3u);
  EXPECT_TRUE(message[0].none()) << "the explicit none marker";
  EXPECT_FALSE(message[1].none()) << "zero-size is not none";
  EXPECT_EQ(message[1].descriptor, empty.descriptor);
  EXPECT_EQ(message[2].descriptor, shaped.descriptor);
  EXPECT_EQ(static_cast<const std::int64_t*>(message[2].data)[5], 9);
  ASSERT_TRUE(receive(lanes->channel(1), 0, {1, 1, 2}, &message).ok());
  EXPECT_TRUE(message.empty());
}

TEST_P(ChannelConformance, BigMessages) {
  auto lanes = fabric(2);
  constexpr std::int64_t kCount = 32 << 17;  // 32 MiB
  Buffer big = numbers(3, kCount);
  const void* address = big.data;
  ASSERT_TRUE(lanes->channel(1).post_recv(0, {1, 1, 1}).ok());
  ASSERT_TRUE(lanes->channel(0).send(1, {1, 1, 1}, {std::move(big)}, soon()).ok());
  Message message;
  ASSERT_TRUE(lanes->channel(1).wait(0, {1, 1, 1}, soon(), &message).ok());
  const auto* values = static_cast<const std::int64_t*>(message[0].data);
  EXPECT_EQ(std::count(values, values + kCount, 3), kCount);
  if (GetParam().by_reference) {
    EXPECT_EQ(message[0].data, address);
  }
}

TEST_P(ChannelConformance, AnOwnerIsReleasedExactlyWhenTheReceiverDropsIt) {
  if (!GetParam().by_reference) GTEST_SKIP() << "the sender's memory is its own";
  auto lanes = fabric(2);
  auto freed = std::make_shared<bool>(false);
  ASSERT_TRUE(lanes->channel(0).send(1, {1, 1, 1}, {numbers(1, 1, freed)}, soon()).ok());
  EXPECT_FALSE(*freed) << "in flight";
  Message message;
  ASSERT_TRUE(receive(lanes->channel(1), 0, {1, 1, 1}, &message).ok());
  EXPECT_FALSE(*freed) << "held by the receiver";
  Message copy = message;
  message.clear();
  EXPECT_FALSE(*freed);
  copy.clear();
  EXPECT_TRUE(*freed);
}

TEST_P(ChannelConformance, CountersCount) {
  auto lanes = fabric(2);
  ASSERT_TRUE(lanes->channel(0).send(1, {1, 1, 1}, {numbers(1, 10), Buffer{}}, soon()).ok());
  Message message;
  ASSERT_TRUE(receive(lanes->channel(1), 0, {1, 1, 1}, &message).ok());
  const Counters sender = lanes->channel(0).counters(), receiver = lanes->channel(1).counters();
  EXPECT_EQ(sender.sent_messages, 1u);
  EXPECT_EQ(sender.sent_bytes, 80u);
  EXPECT_EQ(sender.received_messages, 0u);
  EXPECT_EQ(receiver.received_messages, 1u);
  EXPECT_EQ(receiver.received_bytes, 80u);
  EXPECT_EQ(receiver.stale_dropped, 0u);
}

TEST_P(ChannelConformance, MisuseIsReportedWithWhatToDo) {
  auto lanes = fabric(2);
  Channel &a = lanes->channel(0), &b = lanes->channel(1);
  Message message;
  const auto expect_misuse = [](const Status& status, const std::string& what, const std::string& hint) {
    EXPECT_EQ(status.code, Code::misuse);
    EXPECT_NE(status.message.find(what), std::string::npos) << status.message;
    EXPECT_NE(status.message.find(hint), std::string::npos) << status.message;
  };
  expect_misuse(a.send(2, {1, 1, 1}, {}, soon()), "no lane 2", "0 to 1");
  expect_misuse(a.send(-1, {1, 1, 1}, {}, soon()), "no lane -1", "0 to 1");
  expect_misuse(b.post_recv(7, {1, 1, 1}), "no lane 7", "0 to 1");
  expect_misuse(b.wait(7, {1, 1, 1}, soon(), &message), "no lane 7", "0 to 1");
  expect_misuse(b.wait(0, {1, 1, 1}, soon(), &message), "without a posted receive", "post_recv first");
  EXPECT_TRUE(b.poll(0, {1, 1, 1})) << "wait would answer at once";
  ASSERT_TRUE(b.post_recv(0, {1, 1, 1}).ok());
  expect_misuse(b.post_recv(0, {1, 1, 1}), "was posted before", "once");
  ASSERT_TRUE(a.send(1, {1, 1, 1}, {numbers(5)}, soon()).ok());
  ASSERT_TRUE(b.wait(0, {1, 1, 1}, soon(), &message).ok());
  expect_misuse(b.wait(0, {1, 1, 1}, soon(), &message), "was received before", "once");
  expect_misuse(b.post_recv(0, {1, 1, 1}), "was received before", "once");
  EXPECT_EQ(first(message), 5) << "a refused call leaves the output alone";
  EXPECT_THROW(lanes->channel(2), std::out_of_range);
  EXPECT_THROW(fabric(0), std::invalid_argument);
}

TEST_P(ChannelConformance, AKeySentTwiceIsMisuse) {
  auto lanes = fabric(2);
  Channel &a = lanes->channel(0), &b = lanes->channel(1);
  ASSERT_TRUE(a.send(1, {1, 1, 1}, {numbers(1)}, soon()).ok());
  EXPECT_EQ(a.send(1, {1, 1, 1}, {numbers(2)}, soon()).code, Code::misuse) << "in flight";
  Message message;
  ASSERT_TRUE(receive(b, 0, {1, 1, 1}, &message).ok());
  EXPECT_EQ(first(message), 1) << "the first one is untouched";
  EXPECT_EQ(a.send(1, {1, 1, 1}, {numbers(2)}, soon()).code, Code::misuse) << "received";
  EXPECT_EQ(a.counters().sent_messages, 1u);
}

}  // namespace nestor::comm
