#include <nestor/modules/batch.h>
#include <nestor/modules/data/prompt.h>

namespace nestor::modules {

std::string_view task_name(Task task) {
  switch (task) {
    case Task::read:
      return "read";
    case Task::draw:
      return "draw";
    case Task::text:
      return "text";
  }
  return "";
}

Prompt make_prompt(Task task, std::int64_t image_tokens, const std::vector<std::int64_t>& caption, bool label_caption) {
  Prompt prompt;
  auto& tokens = prompt.tokens;
  if (task == Task::read) {
    tokens = read_prompt(image_tokens);
  } else {
    tokens = {id(SpecialToken::begin), id(task == Task::draw ? SpecialToken::draw : SpecialToken::text)};
  }
  const std::size_t start = tokens.size() - 1;  // the task's token predicts the caption's first
  tokens.insert(tokens.end(), caption.begin(), caption.end());
  if (task == Task::draw) tokens.push_back(id(SpecialToken::end));
  prompt.labels.assign(tokens.size(), ignored_label);
  if (task != Task::draw || label_caption) {
    for (std::size_t i = 0; i < caption.size(); ++i) prompt.labels[start + i] = caption[i];
    prompt.labels[start + caption.size()] = id(SpecialToken::end);
  }
  return prompt;
}

std::int64_t prompt_length(Task task, std::int64_t image_tokens, std::int64_t caption) {
  return 2 + (task == Task::read ? image_tokens : 0) + caption + (task == Task::draw ? 1 : 0);
}

std::int64_t prompt_labels(Task task, std::int64_t caption, bool label_caption) {
  return task != Task::draw || label_caption ? caption + 1 : 0;
}

std::vector<std::int64_t> read_prompt(std::int64_t image_tokens) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(image_tokens) + 2, id(SpecialToken::image));
  tokens.front() = id(SpecialToken::begin);
  tokens.back() = id(SpecialToken::read);
  return tokens;
}

std::vector<std::int64_t> draw_prompt(const Tokenizer& tokenizer, std::string_view text) {
  return make_prompt(Task::draw, 0, tokenizer.encode(text)).tokens;
}

}  // namespace nestor::modules
