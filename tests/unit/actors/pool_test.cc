#include <latch>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nestor/actors/pool.h>

namespace nestor {
namespace {

class Worker : public Actor {
 public:
  explicit Worker(int factor) : factor_(factor) {
    if (factor == 0 && name() == "workers/2") throw std::runtime_error("no third");
  }
  int scale(int n) {
    if (n == 13) throw std::domain_error("thirteen");
    ++calls_;
    return factor_ * n;
  }
  int calls() const { return calls_; }
  int hold(std::shared_ptr<std::latch> latch) {
    latch->wait();
    return 1;
  }
  int first_waits(std::pair<int, std::shared_ptr<std::latch>> input) {
    if (input.first == 0) {
      input.second->wait();
    } else {
      input.second->count_down();
    }
    return input.first;
  }

 private:
  int factor_;
  int calls_ = 0;
};

TEST(ActorPool, MapKeepsTheOrderOfInputs) {
  Runtime runtime;
  ActorPool<Worker> pool(runtime, "workers", 4, 3);
  std::vector<int> inputs(100);
  std::iota(inputs.begin(), inputs.end(), 20);
  const std::vector<int> results = pool.map(&Worker::scale, inputs);
  ASSERT_EQ(results.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i)], 3 * (20 + i));
  int calls = 0;
  for (std::size_t i = 0; i < pool.size(); ++i) calls += pool.member(i).call(&Worker::calls).get();
  EXPECT_EQ(calls, 100);
  EXPECT_TRUE(pool.map(&Worker::scale, std::vector<int>{}).empty());
}

TEST(ActorPool, ASlowInputHoldsUpNobody) {
  Runtime runtime;
  ActorPool<Worker> pool(runtime, "workers", 2, 1);
  auto latch = std::make_shared<std::latch>(5);
  std::vector<std::pair<int, std::shared_ptr<std::latch>>> inputs;
  for (int i = 0; i < 6; ++i) inputs.emplace_back(i, latch);
  std::vector<int> order;
  pool.map_unordered(&Worker::first_waits, inputs, [&](std::size_t i, int result) {
    EXPECT_EQ(static_cast<int>(i), result);
    order.push_back(result);
  });
  ASSERT_EQ(order.size(), 6u);  // input 0 is done only after all the others ran on the other member
  EXPECT_THAT(std::vector<int>(order.begin(), order.begin() + 4), testing::ElementsAre(1, 2, 3, 4));
}

TEST(ActorPool, AFailureIsThrownAndThePoolLivesOn) {
  Runtime runtime;
  ActorPool<Worker> pool(runtime, "workers", 2, 1);
  EXPECT_THROW(pool.map(&Worker::scale, std::vector<int>{1, 13, 2}), actors::CallFailed);
  EXPECT_THAT(pool.map(&Worker::scale, std::vector<int>{4, 5}), testing::ElementsAre(4, 5));
  pool.member(1).kill("gone");
  EXPECT_THROW(pool.map(&Worker::scale, std::vector<int>{1, 2, 3}), actors::ActorDied);
  EXPECT_EQ(pool.call(&Worker::scale, 7).get(), 7) << "goes to the member that lives";
}

TEST(ActorPool, CallGoesToTheLeastBusy) {
  Runtime runtime;
  ActorPool<Worker> pool(runtime, "workers", 2, 1);
  auto latch = std::make_shared<std::latch>(1);
  auto held = pool.member(0).call(&Worker::hold, latch);
  auto also_held = pool.member(0).call(&Worker::hold, latch);
  EXPECT_EQ(pool.call(&Worker::scale, 7).get(), 7);
  EXPECT_EQ(pool.member(1).call(&Worker::calls).get(), 1);
  latch->count_down();
  EXPECT_EQ(held.get() + also_held.get(), 2);
}

TEST(ActorPool, OwnsItsMembers) {
  Runtime runtime;
  Handle<Worker> member;
  {
    ActorPool<Worker> pool(runtime, "workers", 2, 1);
    member = pool.member(1);
    EXPECT_EQ(member.name(), "workers/1");
  }
  EXPECT_FALSE(member.alive());
  EXPECT_THROW(ActorPool<Worker>(runtime, "workers", 4, 0), actors::CallFailed);
  for (const ActorInfo& info : runtime.list()) EXPECT_EQ(info.state, "DEAD") << info.name;
  EXPECT_THROW(ActorPool<Worker>(runtime, "workers", 0, 1), actors::Error);
}

}  // namespace
}  // namespace nestor
