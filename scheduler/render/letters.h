#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nestor/scheduler/timeline.h>

namespace nestor::scheduler {

/// A letter for each module and direction, for drawings in text. The LLM has F and B (lower case from the second chunk
/// on); pools a letter of their name, lower case forward and upper case backward. With split backwards the LLM's halves
/// are I and W.
class Letters {
 public:
  explicit Letters(const Timeline& timeline);

  char of(const Operator& op, std::int32_t lane) const;
  /// What a cell is drawn out with: direction by sight.
  static char fill(OpKind kind);
  /// "F B LLM forward and backward", one entry per module that has rows.
  const std::vector<std::string>& legend() const { return legend_; }
  /// The chunk of an LLM stage on a lane: the place among the lane's stages, 0 the first.
  std::int32_t chunk(std::int32_t lane, std::int32_t stage) const;

 private:
  std::vector<char> letter_;                     ///< by module, lower case
  std::vector<std::vector<std::int32_t>> held_;  ///< by lane: its LLM stages, ascending
  std::vector<std::string> legend_;
};

}  // namespace nestor::scheduler
