#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include <nestor/launch/driver/parser.h>
#include <nestor/launch/error.h>
#include <nestor/launch/files.h>

namespace nestor::launch {
namespace {

constexpr std::int64_t kMostMembers = 65536;

bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

}  // namespace

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;  // a word has begun, be it empty
  char quote = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    if (c == '\\' && quote != '\'') {
      if (++at == line.size()) throw InputError("line", "ends with a backslash", "\\\\ is one");
      word += line[at];
      inside = true;
    } else if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      inside = true;
    } else if (blank(c)) {
      if (inside) words.push_back(std::move(word));
      word.clear();
      inside = false;
    } else if (c == '#' && !inside) {
      return words;
    } else {
      word += c;
      inside = true;
    }
  }
  if (quote != 0)
    throw InputError("line", fmt::format("a quote {} does not end", quote),
                     "\\" + std::string(1, quote) + " is one as it is");
  if (inside) words.push_back(std::move(word));
  return words;
}

std::int64_t whole_number(const std::string& word, const std::string& what, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < least || value > most)
    throw InputError(what, "\"" + one_line(word, 40) + "\" is no whole number of them",
                     most == kMostSteps ? fmt::format("{} or more", least) : fmt::format("{} to {}", least, most));
  return value;
}

Members parse_members(const std::string& word) {
  Members members;
  members.list = word.find(',') != std::string::npos;
  if (!members.list) {
    members.numbers.push_back(static_cast<std::int32_t>(whole_number(word, "members", 1, kMostMembers)));
    return members;
  }
  std::size_t start = 0;
  while (start < word.size()) {
    const std::size_t comma = std::min(word.find(',', start), word.size());
    members.numbers.push_back(
        static_cast<std::int32_t>(whole_number(word.substr(start, comma - start), "lanes", 0, kMostMembers - 1)));
    start = comma + 1;
  }
  if (members.numbers.empty()) throw InputError("lanes", "there are none", "e.g. 0,1");
  return members;
}

}  // namespace nestor::launch
