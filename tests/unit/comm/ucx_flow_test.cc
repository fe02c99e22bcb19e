// Flow control and aborts of the UCX backend: windows, memory, lanes that wait for one another.
#include <ctime>
#include <fstream>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <nestor/comm/backends/ucx/flow.h>
#include <nestor/comm/ucx.h>

#include "ucx_ends.h"
#include "ucx_peer.h"

namespace nestor::comm {
namespace {

using namespace std::chrono_literals;
using test::first;
using test::kMiB;
using test::kMiBCount;
using test::numbers;
using test::soon;
using test::until;

class UcxFlow : public test::UcxEnds {};

/// Resident memory of this process, in bytes.
std::size_t resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return 1024 * std::stoull(line.substr(6));
  }
  return 0;
}

TEST_P(UcxFlow, ASenderWaitsForASlowReceiverAndMemoryIsBounded) {
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

TEST_P(UcxFlow, TwoLanesThatPostFirstSendAnyAmountToEachOther) {
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

TEST_P(UcxFlow, AWaitForALaterKeyLetsTheSenderPastItsWindow) {
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

TEST_P(UcxFlow, AbortsAndGenerationsDuringRendezvous) {
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

TEST_P(UcxFlow, WhatAComputingLaneIsSentArrivesMeanwhile) {
  open(2);
  // Lane 1 makes no call at all: its helper answers the rendezvous, so that the sender's memory becomes free.
  ASSERT_TRUE(end(1).post_recv(0, {1, 1, 1}).ok());
  Message message{numbers(8, 2 * kMiBCount)};
  const std::weak_ptr<const void> memory = message[0].owner;
  ASSERT_TRUE(end(0).send(1, {1, 1, 1}, std::move(message), soon()).ok());
  EXPECT_TRUE(until(end(0), [&] { return memory.expired(); }));
  EXPECT_TRUE(end(1).wait(0, {1, 1, 1}, soon(), &message).ok());
}

/// Processor time of all threads of this process.
std::chrono::nanoseconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST_P(UcxFlow, LanesThatNothingReachesSleep) {
  open(2);
  Message message;
  ASSERT_TRUE(end(0).send(1, {1, 0, 1}, {numbers(1, 2 * kMiBCount)}, soon()).ok());
  ASSERT_TRUE(receive(1, 0, {1, 0, 1}, &message).ok());
  ASSERT_TRUE(end(1).post_recv(0, {1, 1, 1}).ok());
  const auto before = processor_time();
  EXPECT_EQ(end(1).wait(0, {1, 1, 1}, Clock::now() + 300ms, &message).code, Code::deadline);
  EXPECT_LT(processor_time() - before, 150ms) << "a wait for what is not sent";
  Status status;
  for (std::uint64_t i = 2; status.ok(); ++i) {
    const auto sending = processor_time();
    status = end(0).send(1, {1, i, 1}, {numbers(1, 2 * kMiBCount)}, Clock::now() + 300ms);
    if (!status.ok()) {
      EXPECT_LT(processor_time() - sending, 150ms) << "a send that finds no room";
    }
  }
  EXPECT_EQ(status.code, Code::deadline) << status.message;
}

TEST_P(UcxFlow, SizesOnBothSidesOfEachThresholdArriveWhole) {
  open(2);
  std::vector<std::int64_t> sizes;
  for (const std::int64_t edge :
       {8, 64, 128, 4096, 8192, 1 << 16, 1 << 18, 508 << 10, 2 * (508 << 10), 1 << 20, 4 << 20}) {
    for (const std::int64_t away : {-65, -8, -1, 0, 1, 8, 65}) {
      if (edge + away >= 0) sizes.push_back(edge + away);
    }
  }
  const auto byte_at = [](std::size_t message, std::int64_t i) {
    return static_cast<std::uint8_t>(31 * message + static_cast<std::size_t>(i) + static_cast<std::size_t>(i >> 8));
  };
  const auto key = [](std::size_t i) { return Key{1, i, 1}; };
  std::thread sender([&] {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      auto bytes = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(sizes[i]));
      for (std::int64_t k = 0; k < sizes[i]; ++k) (*bytes)[static_cast<std::size_t>(k)] = byte_at(i, k);
      Buffer buffer;
      buffer.descriptor = {DType::uint8, Device{}, {sizes[i]}};
      buffer.data = bytes->data();
      buffer.owner = bytes;
      EXPECT_TRUE(end(0).send(1, key(i), {buffer}, soon()).ok());
    }
  });
  constexpr std::size_t kAhead = 5;
  Status status;
  for (std::size_t i = 0; i < kAhead; ++i) EXPECT_TRUE(end(1).post_recv(0, key(i)).ok());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Message message;
    status = end(1).wait(0, key(i), soon(), &message);
    EXPECT_TRUE(status.ok()) << status.message;
    if (!status.ok()) break;
    if (i + kAhead < sizes.size()) {
      EXPECT_TRUE(end(1).post_recv(0, key(i + kAhead)).ok());
    }
    EXPECT_EQ(message[0].descriptor.shape, std::vector<std::int64_t>{sizes[i]});
    const auto* bytes = static_cast<const std::uint8_t*>(message[0].data);
    std::int64_t wrong = -1;
    for (std::int64_t k = 0; k < sizes[i] && wrong < 0; ++k) {
      if (bytes[k] != byte_at(i, k)) wrong = k;
    }
    EXPECT_EQ(wrong, -1) << "of " << sizes[i];
  }
  sender.join();
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, UcxFlow, testing::Values("posix,cma,self"));
INSTANTIATE_TEST_SUITE_P(Tcp, UcxFlow, testing::Values("tcp,self"));

}  // namespace
}  // namespace nestor::comm
