#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nestor/actors/actor.h>
#include <nestor/actors/handle.h>
#include <nestor/actors/plain.h>
#include <nestor/actors/remote/node.h>
#include <nestor/actors/runtime.h>
#include <nestor/actors/text_call.h>

// Calls without the actor's C++ type: arguments and results as JSON.

namespace nestor::actors {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

enum class Colour : std::uint8_t { red, blue };

struct Point {
  double x = 0, y = 0;
  std::optional<std::string> label;
  template <class Visit>
  void fields(Visit&& visit) {
    visit(x, y, label);
  }
};

class Board final : public Actor {
 public:
  static void describe(MethodTable<Board>& table) {
    table.type("board")
        .method("put", &Board::put)
        .method("all", &Board::all)
        .method("mean", &Board::mean)
        .method("double", &Board::twice)
        .method("paint", &Board::paint)
        .method("later", &Board::later)
        .method("names", &Board::names)
        .method("fail", &Board::fail)
        .method("secret", &Board::secret);
  }
  void put(const std::string& name, Point point) { points_[name] = std::move(point); }
  std::map<std::string, Point> all() const { return points_; }
  double mean(const std::vector<double>& values) {
    return torch::tensor(values, torch::kFloat64).mean().item<double>();
  }
  torch::Tensor twice(const torch::Tensor& tensor) { return 2 * tensor; }
  Colour paint(Colour colour, std::uint8_t shade, bool bright) { return bright && shade > 100 ? Colour::blue : colour; }
  Future<std::pair<std::string, std::int64_t>> later(std::int64_t number) {
    Promise<std::pair<std::string, std::int64_t>> promise;
    promise.set_value(std::pair<std::string, std::int64_t>("later", number));
    return promise.future();
  }
  std::map<int, std::string> names(std::map<int, std::string> names) { return names; }
  void fail() { throw std::runtime_error("on purpose"); }
  void secret(const Handle<Board>&) {}

 private:
  std::map<std::string, Point> points_;
};

class TextCall : public testing::Test {
 protected:
  std::string call(const std::string& method, const std::string& arguments) {
    return call_as_text(runtime_, "board", method, arguments).get();
  }
  auto refused(const std::string& method, const std::string& arguments) {
    return [=, this] { call(method, arguments); };
  }

  Runtime runtime_;
  Handle<Board> board_ = runtime_.spawn<Board>("board");
};

TEST_F(TextCall, ValuesOfAllKindsGoInAndOut) {
  EXPECT_EQ(call("put", R"(["a", [1, 2.5, "first"]])"), "null");
  EXPECT_EQ(call("put", R"(["b", [0, -1, null]])"), "null");
  EXPECT_EQ(call("all", "[]"), R"({"a":[1.0,2.5,"first"],"b":[0.0,-1.0,null]})");
  EXPECT_EQ(call("mean", "[[1, 2, 6]]"), "3.0");
  EXPECT_EQ(call("double", "[[[1, 2], [3, 4]]]"), "[[2,4],[6,8]]");
  EXPECT_EQ(call("double", "[[0.5]]"), "[1.0]");
  EXPECT_EQ(call("double", "[3]"), "6");
  EXPECT_EQ(call("paint", "[0, 101, true]"), "1");
  EXPECT_EQ(call("later", "[7]"), R"(["later",7])");
  EXPECT_EQ(call("names", R"([[[3, "c"], [1, "a"]]])"), R"([[1,"a"],[3,"c"]])");
}

TEST_F(TextCall, WhatIsNoNumberInJsonIsWritten) {
  EXPECT_EQ(to_plain(std::numeric_limits<double>::quiet_NaN()).write(), R"("nan")");
  EXPECT_EQ(to_plain(-std::numeric_limits<double>::infinity()).write(), R"("-inf")");
  EXPECT_EQ(to_plain(torch::ones({40, 40})).write(), R"("tensor of 40 40, too many to show")");
  EXPECT_EQ(to_plain(torch::Tensor()).write(), "null");
  EXPECT_EQ(to_plain(torch::zeros({0, 3})).write(), "[]");
}

TEST_F(TextCall, ErrorsSayWhatWasWrongWithWhat) {
  EXPECT_THAT(refused("nothing", "[]"), ThrowsMessage<Error>(HasSubstr("it has put, all, mean")));
  EXPECT_THAT(refused("secret", "[1]"), ThrowsMessage<Error>(HasSubstr("cannot be written as text")));
  EXPECT_THAT(refused("put", R"(["a"])"), ThrowsMessage<Error>(HasSubstr("takes 2 arguments, 1 are given")));
  EXPECT_THAT(refused("put", R"([1, [1, 2, null]])"), ThrowsMessage<Error>(HasSubstr("an integer, not a string")));
  EXPECT_THAT(refused("put", R"(["a", [1, 2]])"), ThrowsMessage<Error>(HasSubstr("3 fields")));
  EXPECT_THAT(refused("put", R"(["a", [1, 2, null, 4]])"), ThrowsMessage<Error>(HasSubstr("3 fields")));
  EXPECT_THAT(refused("paint", "[0, 256, true]"), ThrowsMessage<Error>(HasSubstr("1 bytes")));
  EXPECT_THAT(refused("paint", "[0, -1, true]"), ThrowsMessage<Error>(HasSubstr("1 bytes")));
  EXPECT_THAT(refused("paint", "[0, 1.5, true]"), ThrowsMessage<Error>(HasSubstr("a number, not an integer")));
  EXPECT_THAT(refused("double", "[[[1, 2], [3]]]"), ThrowsMessage<Error>(HasSubstr("as long as its neighbours")));
  EXPECT_THAT(refused("double", "[[[1, 2], 3]]"), ThrowsMessage<Error>(HasSubstr("as its neighbours are")));
  EXPECT_THAT(refused("double", R"([["x"]])"), ThrowsMessage<Error>(HasSubstr("a string, not a number")));
  EXPECT_THAT(refused("mean", "[1"), ThrowsMessage<Error>(HasSubstr("no JSON")));
  EXPECT_THAT(refused("mean", "3"), ThrowsMessage<Error>(HasSubstr("not a list")));
  EXPECT_THAT(refused("fail", "[]"), ThrowsMessage<CallFailed>(HasSubstr("on purpose")));
  EXPECT_THAT([&] { call_as_text(runtime_, "nobody", "x", "[]").get(); }, ThrowsMessage<Error>(HasSubstr("nobody")));
  std::string deep;
  for (int i = 0; i < 2000; ++i) deep += "[";
  for (int i = 0; i < 2000; ++i) deep += "]";
  EXPECT_THAT(refused("double", deep), ThrowsMessage<Error>(HasSubstr("nested too deeply")));
}

}  // namespace
}  // namespace nestor::actors
