#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <nestor/comm/comm.h>

namespace nestor::comm {
namespace {

Deadline soon() {
  return Clock::now() + std::chrono::seconds(20);
}

/// Runs `body(lane)` on a thread for each lane.
void on_each(const std::vector<std::int32_t>& lanes, const std::function<void(std::int32_t)>& body) {
  std::vector<std::thread> threads;
  for (std::int32_t lane : lanes) threads.emplace_back(body, lane);
  for (std::thread& thread : threads) thread.join();
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Collective, GathersBytesOfAnyLengthInTheOrderOfLanes) {
  auto fabric = make_inproc_fabric(6);
  const std::vector<std::int32_t> members = {0, 2, 3, 5};
  on_each(members, [&](std::int32_t self) {
    const std::string mine(static_cast<std::size_t>(self), static_cast<char>('a' + self));
    std::vector<std::vector<std::byte>> all;
    ASSERT_TRUE(all_gather_bytes(fabric->channel(self), self, members, {1, 1, 1}, bytes_of(mine), soon(), &all).ok());
    ASSERT_EQ(all.size(), members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto lane = static_cast<std::size_t>(members[i]);
      EXPECT_EQ(all[i], std::vector<std::byte>(lane, static_cast<std::byte>('a' + members[i])));
    }
  });
}

TEST(Collective, GathersMessagesByReference) {
  auto fabric = make_inproc_fabric(3);
  std::vector<int> values = {10, 11, 12};
  on_each({0, 1, 2}, [&](std::int32_t self) {
    Message mine(2);  // the second is a none marker
    mine[0].data = &values[static_cast<std::size_t>(self)];
    mine[0].owner = std::make_shared<int>(0);
    std::vector<Message> all;
    ASSERT_TRUE(
        all_gather(fabric->channel(self), self, std::vector<std::int32_t>{0, 1, 2}, {1, 1, 1}, mine, soon(), &all)
            .ok());
    for (std::size_t lane = 0; lane < 3; ++lane) {
      EXPECT_EQ(all[lane].at(0).data, &values[lane]);
      EXPECT_TRUE(all[lane].at(1).none());
    }
  });
}

TEST(Collective, SumsAlikeOnEveryLaneBitForBit) {
  auto fabric = make_inproc_fabric(4);
  const std::vector<std::int32_t> members = {0, 1, 2, 3};
  const std::vector<double> parts = {1e16, 1.0, -1e16, 1.0};  // another order of addition gives another sum
  std::vector<std::vector<double>> sums(4);
  on_each(members, [&](std::int32_t self) {
    for (std::uint64_t step = 0; step < 50; ++step) {
      std::vector<double> values = {parts[static_cast<std::size_t>(self)], 1.0};
      ASSERT_TRUE(all_sum(fabric->channel(self), self, members, {1, step, 1}, values, soon()).ok());
      sums[static_cast<std::size_t>(self)] = values;
    }
  });
  for (const auto& sum : sums) EXPECT_EQ(sum, (std::vector<double>{((1e16 + 1.0) - 1e16) + 1.0, 4.0}));
}

TEST(Collective, OneMemberIsAll) {
  auto fabric = make_inproc_fabric(2);
  std::vector<double> values = {3.0};
  EXPECT_TRUE(all_sum(fabric->channel(1), 1, std::vector<std::int32_t>{1}, {1, 1, 1}, values, soon()).ok());
  EXPECT_EQ(values[0], 3.0);
}

TEST(Collective, DeadlineAndAbortLeaveTheValues) {
  auto fabric = make_inproc_fabric(2);
  const std::vector<std::int32_t> members = {0, 1};
  std::vector<double> values = {3.0};
  const Deadline brief = Clock::now() + std::chrono::milliseconds(5);
  EXPECT_EQ(all_sum(fabric->channel(0), 0, members, {1, 1, 1}, values, brief).code, Code::deadline);
  std::thread member([&] {
    const Status status = all_sum(fabric->channel(0), 0, members, {1, 1, 2}, values, Deadline::max());
    EXPECT_EQ(status.code, Code::aborted);
    EXPECT_EQ(status.message, "lane 1 died");
  });
  fabric->channel(0).abort(1, "lane 1 died");
  member.join();
  EXPECT_EQ(values[0], 3.0);
}

TEST(Collective, MisuseSaysWhatToDo) {
  auto fabric = make_inproc_fabric(4);
  std::vector<double> values = {1.0};
  const auto sum = [&](std::vector<std::int32_t> members) {
    return all_sum(fabric->channel(0), 0, members, {1, 1, 1}, values, soon());
  };
  EXPECT_EQ(sum({1, 2}).code, Code::misuse);
  EXPECT_NE(sum({1, 2}).message.find("list the calling lane"), std::string::npos);
  EXPECT_EQ(sum({1, 0}).code, Code::misuse);
  EXPECT_EQ(sum({0, 0}).code, Code::misuse);
  EXPECT_EQ(sum({}).code, Code::misuse);
  on_each({0, 1}, [&](std::int32_t self) {
    std::vector<double> mine(static_cast<std::size_t>(self + 1), 1.0);
    const std::vector<std::int32_t> members = {0, 1};
    const Status status = all_sum(fabric->channel(self), self, members, {1, 2, 1}, mine, soon());
    EXPECT_EQ(status.code, Code::misuse);
    EXPECT_EQ(mine[0], 1.0);
  });
}

}  // namespace
}  // namespace nestor::comm
