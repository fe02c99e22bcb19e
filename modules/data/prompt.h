#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <nestor/modules/data/tokenizer.h>

namespace nestor::modules {

/// What a sample asks of the model.
enum class Task : std::uint8_t {
  read,  ///< picture → caption: [begin] [image]*n [read] caption [end], the caption and the end predicted
  draw,  ///< caption → picture: [begin] [draw] caption [end], the picture generated from the hidden states
  text   ///< caption alone:     [begin] [text] caption [end], the caption and the end predicted
};
std::string_view task_name(Task task);

/// Tokens and labels of one sample. `labels[i]` is the token to predict at position i (already shifted) or
/// ignored_label; what nothing follows is not fed, so `end` is a token of `draw` alone.
struct Prompt {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels;
};
/// `label_caption`: in `draw` too the caption is predicted.
Prompt make_prompt(Task task, std::int64_t image_tokens, const std::vector<std::int64_t>& caption,
                   bool label_caption = false);
/// Labelled tokens and length of the same, without making it.
std::int64_t prompt_length(Task task, std::int64_t image_tokens, std::int64_t caption);
std::int64_t prompt_labels(Task task, std::int64_t caption, bool label_caption = false);

/// What a caption is generated from: [begin] [image]*n [read]; decode up to `end`.
std::vector<std::int64_t> read_prompt(std::int64_t image_tokens);
/// What a picture is generated from. An empty text is the unconditional prompt of classifier-free guidance (Ho and
/// Salimans, 2022), trained by `drop_caption`.
std::vector<std::int64_t> draw_prompt(const Tokenizer& tokenizer, std::string_view text);

}  // namespace nestor::modules
