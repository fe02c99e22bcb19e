#include <gtest/gtest.h>

#include <nestor/launch/driver/parser.h>
#include <nestor/launch/error.h>

namespace nestor::launch {
namespace {

using Words = std::vector<std::string>;

TEST(DriverParser, SplitsAtBlanksOutsideOfQuotes) {
  EXPECT_EQ(split_words(""), Words{});
  EXPECT_EQ(split_words(" \t\r"), Words{});
  EXPECT_EQ(split_words("step  10\r"), (Words{"step", "10"}));
  EXPECT_EQ(split_words("generate --draw \"edit  find\""), (Words{"generate", "--draw", "edit  find"}));
  EXPECT_EQ(split_words("call a b '{\"x\": [1, 2]}' ''"), (Words{"call", "a", "b", "{\"x\": [1, 2]}", ""}));
  EXPECT_EQ(split_words("a\"b c\"d"), (Words{"ab cd"}));
}

TEST(DriverParser, TakesEscapedCharactersAsTheyAre) {
  EXPECT_EQ(split_words(R"(a\ b "c\"d" 'e\f')"), (Words{"a b", "c\"d", "e\\f"}));
  EXPECT_THROW(split_words("a\\"), InputError);
}

TEST(DriverParser, EndsAtAComment) {
  EXPECT_EQ(split_words("# all of it"), Words{});
  EXPECT_EQ(split_words("step # one"), Words{"step"});
  EXPECT_EQ(split_words("a#b '#c' \\#d"), (Words{"a#b", "#c", "#d"}));
}

TEST(DriverParser, RefusesAnOpenQuote) {
  EXPECT_THROW(split_words("say \"hello"), InputError);
  EXPECT_THROW(split_words("say 'hello\""), InputError);
}

TEST(DriverParser, ReadsWholeNumbersWithinTheirBounds) {
  EXPECT_EQ(whole_number("12", "steps", 1, kMostSteps), 12);
  for (const char* wrong : {"", "0", "-1", "1.5", "1e3", "12x", " 1", "99999999999999999999", "1000000001"})
    EXPECT_THROW(whole_number(wrong, "steps", 1, kMostSteps), InputError) << wrong;
}

TEST(DriverParser, TellsASizeFromLanes) {
  EXPECT_FALSE(parse_members("2").list);
  EXPECT_EQ(parse_members("2").numbers, (std::vector<std::int32_t>{2}));
  EXPECT_TRUE(parse_members("0,").list);
  EXPECT_EQ(parse_members("0,").numbers, (std::vector<std::int32_t>{0}));
  EXPECT_EQ(parse_members("0,1,3").numbers, (std::vector<std::int32_t>{0, 1, 3}));
  for (const char* wrong : {"", "0", ",", "-1,2", "1,,2", "1,x", "65536,0"})
    EXPECT_THROW(parse_members(wrong), InputError) << wrong;
}

}  // namespace
}  // namespace nestor::launch
