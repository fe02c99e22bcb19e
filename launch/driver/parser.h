#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nestor::launch {

/// A driver's line as words: split at blanks; "..." and '...' keep theirs; within "..." and outside of quotes a
/// backslash takes the next character as it is; # at a word's start begins a comment. Throws InputError where a quote
/// does not end, or a backslash ends the line.
std::vector<std::string> split_words(std::string_view line);

inline constexpr std::int64_t kMostSteps = 1'000'000'000;

/// Throws InputError naming `what`, where `word` is no whole number within [least, most].
std::int64_t whole_number(const std::string& word, const std::string& what, std::int64_t least, std::int64_t most);

/// "2", or "0,1,3": a pool's size (one element, `list` false) or the lanes of its members.
struct Members {
  bool list = false;
  std::vector<std::int32_t> numbers;
};
/// "2" is a size; "0,1" and "0," are lanes. Throws InputError.
Members parse_members(const std::string& word);

}  // namespace nestor::launch
