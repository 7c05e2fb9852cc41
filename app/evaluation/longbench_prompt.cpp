#include "app/evaluation/longbench_prompt.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::evaluation {

std::string longbench_text(const LongBenchTask& task, std::string_view context, std::string_view input) {
  std::string text;
  for (std::size_t at = 0; at < task.prompt.size();) {
    const std::size_t open = std::min(task.prompt.find('{', at), task.prompt.size());
    text += task.prompt.substr(at, open - at);
    if (open == task.prompt.size()) break;
    const std::size_t close = task.prompt.find('}', open);
    text += task.prompt.substr(open, close - open + 1) == "{context}" ? context : input;
    at = close + 1;
  }
  return text;
}

std::string without_middle(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                           std::int64_t max_tokens) {
  const auto half = static_cast<std::size_t>(max_tokens / 2);
  std::string text;
  // By halves: bytes of two cut characters must not make a third.
  for (const auto kept : {ids.first(half), ids.last(half)}) {
    std::string buffer;
    text += tokenizer::replace_invalid_utf8(tokenizer.decode(kept, true), buffer);
  }
  return text;
}

LongBenchPrompt longbench_prompt(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                 const LongBenchLimits& limits,
                                 const std::function<std::vector<std::int32_t>(const std::string&)>& encode) {
  const std::vector<std::int32_t> whole = tokenizer.encode(text, true);
  LongBenchPrompt prompt;
  prompt.n_whole = std::ssize(whole);
  std::string shown(text);
  for (std::int64_t left = limits.max_tokens;;) {
    if (std::ssize(whole) > left) {
      if (left < 2)
        throw InvalidInput(fmt::format(
            "the prompt has {} tokens, of which none fit: expected room for more than the {} that "
            "the model takes",
            whole.size(), limits.most_tokens));
      shown = without_middle(tokenizer, whole, left);
      prompt.cut = true;
    }
    prompt.ids = encode(shown);
    const std::int64_t excess = std::ssize(prompt.ids) - limits.most_tokens;
    if (excess <= 0) return prompt;
    left = std::min(left, std::ssize(whole)) - excess;
  }
}

}  // namespace keyscope::evaluation
