// What only the in-process backend promises: flat memory, its table.
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <nestor/comm/comm.h>
#include <nestor/comm/key_table.h>

namespace nestor::comm {
namespace {

Message message_of(std::int64_t value) {
  Message message(1);
  message[0].owner = std::make_shared<std::int64_t>(value);
  message[0].data = message[0].owner.get();
  return message;
}

std::int64_t value_of(const Message& message) {
  return *static_cast<const std::int64_t*>(message.at(0).data);
}

/// Resident memory of this process, in KiB.
std::int64_t resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  }
  return 0;
}

TEST(Inproc, MemoryIsFlatOverAMillionMessages) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  auto fabric = make_inproc_fabric(2);
  Channel &a = fabric->channel(0), &b = fabric->channel(1);
  std::int64_t before = 0;
  for (std::uint64_t step = 0; step < 1'000'000; ++step) {
    if (step == 100'000) before = resident();
    const Key key{1, step / 100, step};
    Message message;
    ASSERT_TRUE(a.send(1, key, message_of(static_cast<std::int64_t>(step)), Deadline::max()).ok());
    ASSERT_TRUE(b.post_recv(0, key).ok());
    ASSERT_TRUE(b.wait(0, key, Deadline::max(), &message).ok());
    ASSERT_EQ(value_of(message), static_cast<std::int64_t>(step));
  }
  ASSERT_GT(before, 0);
  EXPECT_LT(resident() - before, 1024) << "KiB grown over 900,000 messages";
}

TEST(KeyTable, AgreesWithAMapUnderRandomUse) {
  KeyTable table;
  std::map<std::uint64_t, std::int64_t> expected;  // arrived keys by tag
  std::mt19937_64 random(3);
  std::uint64_t next = 0;
  for (int i = 0; i < 200'000; ++i) {
    if (expected.size() < 5000 && random() % 2 == 0) {  // more keys than the table starts with
      const std::uint64_t tag = next++;
      table.insert({{1, tag % 7, tag}, static_cast<std::int32_t>(tag % 5)}, KeyState::arrived).message =
          message_of(static_cast<std::int64_t>(tag));
      expected[tag] = static_cast<std::int64_t>(tag);
    } else if (!expected.empty()) {
      auto it = expected.lower_bound(random() % next);
      if (it == expected.end()) it = expected.begin();
      const std::uint64_t tag = it->first;
      KeyTable::Slot* slot = table.find({{1, tag % 7, tag}, static_cast<std::int32_t>(tag % 5)});
      ASSERT_NE(slot, nullptr);
      ASSERT_EQ(slot->state, KeyState::arrived);
      Message taken;
      table.take(*slot, &taken);
      ASSERT_EQ(value_of(taken), it->second);
      expected.erase(it);
    }
    ASSERT_EQ(table.open(), expected.size());
  }
  for (auto [tag, value] : expected) {
    KeyTable::Slot* slot = table.find({{1, tag % 7, tag}, static_cast<std::int32_t>(tag % 5)});
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(value_of(slot->message), value);
  }
}

TEST(KeyTable, RemembersTheLastTakenKeysAndForgetsOlderOnes) {
  KeyTable table;
  Message message;
  const std::uint64_t count = KeyTable::kRemembered + 10;
  for (std::uint64_t tag = 0; tag < count; ++tag) {
    table.take(table.insert({{1, 1, tag}, 0}, KeyState::ready), &message);
  }
  EXPECT_EQ(table.find({{1, 1, 9}, 0}), nullptr);
  for (std::uint64_t tag = 10; tag < count; ++tag) {
    ASSERT_NE(table.find({{1, 1, tag}, 0}), nullptr) << tag;
    EXPECT_EQ(table.find({{1, 1, tag}, 0})->state, KeyState::taken);
  }
}

TEST(KeyTable, DropsOldGenerationsOfEveryState) {
  KeyTable table;
  Message message;
  for (std::uint64_t generation : {1, 2, 3}) {
    for (std::uint64_t tag = 0; tag < 3000; ++tag) table.insert({{generation, 1, tag}, 0}, KeyState::posted);
    table.insert({{generation, 2, 1}, 0}, KeyState::arrived).message = message_of(1);
    table.take(table.insert({{generation, 3, 1}, 0}, KeyState::ready), &message);
  }
  std::vector<KeyTable::Dropped> dropped;
  table.drop_below(3, dropped);
  EXPECT_EQ(dropped.size(), 2u);
  EXPECT_EQ(table.open(), 3001u);
  EXPECT_EQ(table.find({{2, 3, 1}, 0}), nullptr);
  ASSERT_NE(table.find({{3, 3, 1}, 0}), nullptr);
  EXPECT_EQ(table.find({{3, 3, 1}, 0})->state, KeyState::taken);
  EXPECT_EQ(table.find({{3, 2, 1}, 0})->message.size(), 1u);
  for (std::uint64_t tag = 0; tag < 2 * KeyTable::kRemembered; ++tag) {  // the ring goes on
    table.take(table.insert({{3, 4, tag}, 0}, KeyState::ready), &message);
  }
  EXPECT_EQ(table.find({{3, 3, 1}, 0}), nullptr);
  EXPECT_EQ(table.open(), 3001u);
}

}  // namespace
}  // namespace nestor::comm
