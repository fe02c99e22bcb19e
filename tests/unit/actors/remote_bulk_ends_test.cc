#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <envelope.pb.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nestor/actors/remote/bulk.h>
#include <nestor/actors/remote/letter.h>

// The ends of channels for long payloads without nodes: what they refuse, forget and give up; and letters on their own.

namespace nestor::actors::remote {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

comm::UcxOptions shared_memory() {
  comm::UcxOptions options;
  options.transports = "posix,cma,self";
  options.stall = 2s;
  return options;
}

LetterPtr letter_of(std::uint64_t id, std::size_t bytes) {
  auto letter = std::make_shared<Letter>();
  letter->envelope.set_to("=b");
  letter->envelope.mutable_call()->set_id(id);
  letter->envelope.mutable_call()->set_actor("actor");
  letter->envelope.mutable_call()->set_arguments(std::string(bytes, static_cast<char>(id)));
  return letter;
}

/// What a Bulk told; tests wait for it.
struct Heard {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::uint64_t> arrived, carried, unsent, lost;
  std::vector<std::string> notices, refusals;

  template <class Change>
  void note(Change&& change) {
    {
      std::lock_guard lock(mutex);
      change();
    }
    changed.notify_all();
  }
  template <class Condition>
  bool until(Condition&& condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 20s, condition);
  }
};

Bulk::Hooks hooks_of(Heard& heard, std::function<void(wire::Envelope&)> deliver) {
  Bulk::Hooks hooks;
  hooks.send = [&heard, deliver](wire::Envelope& envelope) {
    if (envelope.has_answer() && !envelope.answer().refused().empty())
      heard.note([&] { heard.refusals.push_back(envelope.answer().refused()); });
    deliver(envelope);
    return std::string();
  };
  hooks.sent_by_link = [](const std::string&) { return 0; };
  hooks.arrived = [&heard](Letter& letter, const std::string&) {
    heard.note([&] { heard.arrived.push_back(letter.envelope.call().id()); });
  };
  hooks.carried = [&heard](const LetterPtr& letter) {
    heard.note([&] { heard.carried.push_back(letter->envelope.call().id()); });
  };
  hooks.unsent = [&heard](const std::vector<LetterPtr>& letters) {
    heard.note([&] {
      for (const auto& letter : letters) heard.unsent.push_back(letter->envelope.call().id());
    });
  };
  hooks.lost = [&heard](const std::vector<LetterPtr>& letters, const std::string&) {
    heard.note([&] {
      for (const auto& letter : letters) heard.lost.push_back(letter->envelope.call().id());
    });
  };
  hooks.notice = [&heard](const std::string& text) { heard.note([&] { heard.notices.push_back(text); }); };
  return hooks;
}

/// Two processes' ends, with calls of functions as the link between them.
struct BulkPair {
  explicit BulkPair(std::chrono::nanoseconds idle = 1min)
      : a(hooks_of(at_a, [this](wire::Envelope& e) { pass(b, "@a", e); }), idle),
        b(hooks_of(at_b, [this](wire::Envelope& e) { pass(a, "=b", e); }), idle) {
    a.start(shared_memory());
    b.start(shared_memory());
  }
  ~BulkPair() {
    a.stop();
    b.stop();
  }
  static void pass(Bulk& to, const std::string& from, const wire::Envelope& envelope) {
    if (envelope.has_offer()) to.offered(from, envelope.offer());
    if (envelope.has_answer()) to.answered(from, envelope.answer());
    if (envelope.has_fence()) to.fenced(from, envelope.fence().number());
  }
  bool carry(std::uint64_t id, std::size_t bytes = 2 << 20) { return a.carry("=b", bytes, letter_of(id, bytes)); }

  Heard at_a, at_b;
  Bulk a, b;
};

TEST(BulkEndsTest, LettersArriveInOrderAndAreAcknowledged) {
  BulkPair pair;
  for (std::uint64_t id = 1; id <= 40; ++id) ASSERT_TRUE(pair.carry(id));
  ASSERT_TRUE(pair.at_a.until([&] { return pair.at_a.carried.size() == 40; }));
  for (std::uint64_t id = 1; id <= 40; ++id) {
    EXPECT_EQ(pair.at_b.arrived[id - 1], id);
    EXPECT_EQ(pair.at_a.carried[id - 1], id);
  }
}

TEST(BulkEndsTest, ShortOnesDoNotWaitForTheChannelToBeMade) {
  BulkPair pair;
  EXPECT_FALSE(pair.carry(1, Bulk::kLeast - 1));
  EXPECT_FALSE(pair.carry(2, Bulk::kLeast)) << "there is none yet";
  EXPECT_TRUE(pair.carry(3, Bulk::kWaits + 1));
  ASSERT_TRUE(pair.at_a.until([&] { return !pair.at_a.carried.empty(); }));
  EXPECT_TRUE(pair.carry(4, Bulk::kLeast));
  EXPECT_FALSE(pair.a.carry("node", 2 << 20, letter_of(5, 2 << 20))) << "only direct links have channels";
  ASSERT_TRUE(pair.at_a.until([&] { return pair.at_a.carried.size() == 2; }));
}

TEST(BulkEndsTest, AnIdleChannelGoesAndAnotherComes) {
  BulkPair pair(50ms);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    while (!pair.carry(id)) std::this_thread::yield();  // the old one may be ending
    ASSERT_TRUE(pair.at_a.until([&] { return pair.at_a.carried.size() == id; }));
    ASSERT_TRUE(pair.at_b.until([&] { return pair.at_b.refusals.size() == id; })) << "the other end has left";
  }
  EXPECT_TRUE(pair.at_a.notices.empty());
}

TEST(BulkEndsTest, AReceiverThatGivesUpLeavesTheRestToTheLink) {
  BulkPair pair;
  ASSERT_TRUE(pair.carry(1));
  ASSERT_TRUE(pair.at_a.until([&] { return pair.at_a.carried.size() == 1; }));
  wire::Offer offer;  // of another sender at the same address: the first channel is over
  offer.set_number(99);
  offer.set_address("garbage");
  pair.b.offered("@a", offer);
  ASSERT_TRUE(pair.at_b.until([&] { return !pair.at_b.refusals.empty(); }));
  EXPECT_THAT(pair.at_b.refusals[0], HasSubstr("address"));
  while (pair.carry(2)) std::this_thread::yield();
  EXPECT_FALSE(pair.carry(3));
  EXPECT_THAT(pair.at_a.notices, ElementsAre(HasSubstr("by the control link")));
}

TEST(BulkEndsTest, ALetterThatIsTakenBackIsNotSent) {
  BulkPair pair;
  const auto taken_back = letter_of(2, 2 << 20);
  ASSERT_TRUE(pair.carry(1));
  ASSERT_TRUE(pair.a.carry("=b", 2 << 20, taken_back));
  ASSERT_TRUE(pair.a.withdraw("=b", taken_back)) << "the channel is still being made";
  ASSERT_TRUE(pair.carry(3));
  ASSERT_TRUE(pair.at_a.until([&] { return pair.at_a.carried.size() == 2; }));
  EXPECT_THAT(pair.at_b.arrived, ElementsAre(1, 3));
}

TEST(BulkEndsTest, GarbageIsRefused) {
  Heard heard;
  std::string address;
  Bulk bulk(
      hooks_of(heard, [&](wire::Envelope& envelope) { heard.note([&] { address = envelope.answer().address(); }); }));
  bulk.start(shared_memory());
  std::mt19937 random(7);
  for (int round = 0; round < 6; ++round) {
    heard.note([&] { heard.refusals.clear(), address.clear(); });
    comm::UcxOptions options = shared_memory();
    options.secret = 17;
    auto channel = comm::open_ucx_channel(1, 2, options);
    wire::Offer offer;
    offer.set_number(static_cast<std::uint64_t>(round));
    offer.set_secret(17);
    offer.set_address(channel->address());
    if (round == 0) offer.mutable_address()->pop_back();
    bulk.offered("@liar", offer);
    if (round > 0) {
      ASSERT_TRUE(heard.until([&] { return !address.empty(); }));
      channel->set_peer(0, address);
      const auto soon = comm::Clock::now() + 10s;
      ASSERT_TRUE(channel->send(0, {1, 0, 0}, {}, soon).ok());
      comm::Message message;
      for (int part = 1; part < round; ++part) {
        std::string bytes(static_cast<std::size_t>(1) << (4 * part), '\0');
        for (char& c : bytes) c = static_cast<char>(random());
        auto owner = std::make_shared<std::string>(std::move(bytes));
        comm::Buffer buffer;
        buffer.descriptor.dtype = comm::DType::uint8;
        buffer.descriptor.shape = {static_cast<std::int64_t>(owner->size())};
        buffer.data = owner->data();
        buffer.owner = owner;
        message.push_back(buffer);
      }
      ASSERT_TRUE(channel->send(0, {1, 1, 1}, message, soon).ok());
    }
    ASSERT_TRUE(heard.until([&] { return !heard.refusals.empty(); })) << round;
  }
  wire::Answer answer;
  answer.set_number(3);
  answer.set_address("x");
  bulk.answered("@nobody", answer);
  bulk.fenced("@nobody", 7);
  EXPECT_TRUE(heard.arrived.empty());
  bulk.stop();
}

TEST(LetterTest, FlatOrNotItReadsTheSame) {
  for (const bool flat : {false, true}) {
    const auto held = torch::arange(40'000, torch::kInt32);
    Letter letter;
    auto encoded = Encoder().attach(held, std::string("between"), std::vector<torch::Tensor>{torch::ones({70'000})});
    letter.envelope.mutable_call()->set_arguments(std::move(encoded.bytes));
    letter.attached = std::move(encoded.attached);
    ASSERT_EQ(letter.attached.size(), 2u);
    if (flat) {
      flatten(letter);
    } else {
      letter = unpack(pack(letter));
    }
    EXPECT_EQ(letter.attached.empty(), flat);
    Decoder decoder(open_payload(letter));
    torch::Tensor first;
    std::string text;
    std::vector<torch::Tensor> rest;
    decoder(first, text, rest).finish();
    EXPECT_TRUE(torch::equal(first, held));
    EXPECT_EQ(text, "between");
    EXPECT_EQ(rest.at(0).sum().item<double>(), 70'000);
  }
}

TEST(LetterTest, PartsThatDoNotFitAreErrors) {
  const auto encode = [] { return Encoder().attach(torch::ones({20'000}), std::int64_t{7}); };
  const auto decode = [](Letter& letter) {
    Decoder decoder(open_payload(letter));
    torch::Tensor tensor;
    std::int64_t number = 0;
    decoder(tensor, number).finish();
  };
  const auto letter_with = [&](const std::vector<std::uint64_t>& sizes, bool keep_attached) {
    Letter letter;
    auto encoded = encode();
    letter.envelope.mutable_call()->set_arguments(std::move(encoded.bytes));
    letter.attached = std::move(encoded.attached);
    if (!keep_attached) flatten(letter);
    letter.envelope.mutable_call()->mutable_attached()->Assign(sizes.begin(), sizes.end());
    return letter;
  };
  Letter right = letter_with({80'000}, false);
  EXPECT_NO_THROW(decode(right));
  for (const auto& sizes : std::vector<std::vector<std::uint64_t>>{
           {}, {79'999}, {80'001}, {UINT64_MAX}, {UINT64_MAX - 3}, {80'000, 0}, {80'000, 1}, {40'000, 40'000}}) {
    Letter wrong = letter_with(sizes, false);
    EXPECT_THROW(decode(wrong), Error);
  }
  Letter both = letter_with({80'000}, true), none = letter_with({}, true), odd = letter_with({}, true);
  EXPECT_THROW(decode(both), Error);
  none.attached.clear();
  EXPECT_THROW(decode(none), Error);
  odd.attached[0].descriptor.shape = {79'000};
  EXPECT_THROW(decode(odd), Error);
  EXPECT_THROW(unpack({}), Error);
  EXPECT_THROW(unpack(comm::Message(5)), Error);
}

TEST(LetterTest, OnlyATensorThatNobodyElseHoldsIsSentFromItsOwnMemory) {
  auto mine = torch::ones({20'000});
  const void* memory = mine.data_ptr();
  auto held = mine;
  EXPECT_NE(Encoder().attach(mine).attached.at(0).data, memory);
  held = torch::Tensor();
  EXPECT_EQ(Encoder().attach(mine).attached.at(0).data, memory);
  std::vector<torch::Tensor> several(1);
  several[0] = std::move(mine);
  EXPECT_EQ(Encoder().attach(several).attached.at(0).data, memory);
  auto whole = torch::ones({2, 20'000});
  auto half = whole[1];
  EXPECT_NE(Encoder().attach(half).attached.at(0).data, half.data_ptr());
  std::vector<float> users(20'000);
  auto borrowed = torch::from_blob(users.data(), {20'000});
  EXPECT_NE(Encoder().attach(borrowed).attached.at(0).data, users.data());
  EXPECT_TRUE(Encoder().attach(torch::ones({100})).attached.empty());
}

}  // namespace
}  // namespace nestor::actors::remote
