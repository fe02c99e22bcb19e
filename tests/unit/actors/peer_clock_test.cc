#include <random>

#include <gtest/gtest.h>

#include <nestor/actors/peer_clock.h>

namespace nestor::actors {
namespace {

TEST(PeerClock, IsNotAheadBeforeAnythingWasHeard) {
  EXPECT_EQ(PeerClock().ahead(), 0);
}

TEST(PeerClock, OneClockIsExactlyOneClock) {
  PeerClock clock;
  clock.heard(1000, 1400, 9000, 9100);
  EXPECT_EQ(clock.ahead(), 0);
  clock.heard(20'000, 20'000, 20'000, 20'000);
  EXPECT_EQ(clock.ahead(), 0);
}

TEST(PeerClock, AnotherHostsClockIsKnownWithinTheMessagesWay) {
  for (const std::int64_t ahead : {std::int64_t{5'000'000'000'000}, std::int64_t{-80'000'000'000}}) {
    PeerClock clock;
    clock.heard(1'000'000, 1'050'000 + ahead, 9'000'000 + ahead, 9'150'000);
    EXPECT_NEAR(static_cast<double>(clock.ahead() - ahead), 0, 100'000);
  }
}

TEST(PeerClock, OneQuickAnswerAmongSlowOnesIsEnoughAndDriftIsFollowed) {
  constexpr std::int64_t kAhead = 123'456'789'000, kStep = 100'000'000;
  std::mt19937_64 random(7);
  PeerClock clock;
  std::int64_t now = 0, worst = 0;
  for (int step = 0; step < 10'000; ++step) {
    const auto peer = [&](std::int64_t at) { return at + kAhead + at / 20'000; };  // 50 ppm fast
    const bool quick = step % 10 == 0;
    const auto way = [&] { return static_cast<std::int64_t>(quick ? 20'000 : 50'000 + random() % 50'000'000); };
    const std::int64_t began = now + way(), ended = began + kStep, received = ended + way();
    clock.heard(now, peer(began), peer(ended), received);
    if (step > 10) worst = std::max(worst, std::abs(clock.ahead() - (peer(received) - received)));
    now = received + 1000;
  }
  EXPECT_LT(worst, 1'000'000);  // a millisecond, where answers take up to fifty
}

}  // namespace
}  // namespace nestor::actors
