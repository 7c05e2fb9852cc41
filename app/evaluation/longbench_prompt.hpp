#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/evaluation/longbench_tasks.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::evaluation {

// The task's prompt with a row's context and input in it, whatever braces these hold.
std::string longbench_text(const LongBenchTask& task, std::string_view context, std::string_view input);

// The text of the first and the last floor(max_tokens / 2) ids, each half decoded by itself and without
// special tokens: what LongBench leaves of a prompt that is too long. Where a cut goes through a character,
// its bytes become U+FFFD.
//   max_tokens: at least 2, less than there are ids
std::string without_middle(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                           std::int64_t max_tokens);

struct LongBenchPrompt {
  std::vector<std::int32_t> ids;
  std::int64_t n_whole = 0;  // tokens of the text before anything was cut
  bool cut = false;
};

// How a prompt is made to fit.
struct LongBenchLimits {
  std::int64_t max_tokens = 0;   // longer texts lose their middle
  std::int64_t most_tokens = 0;  // of the prompt as the model gets it; at least max_tokens
};

// The ids of a task's text as the reference makes them: text, ids, cut in the middle, text again, and ids
// again of that text in its chat template. Cut text is not always as many tokens as were left of it, since
// words part elsewhere at the seam, and a template adds its own; where that is more than `most_tokens`, the
// middle is cut again by as many as are too many.
//   encode: the ids that the model gets of a text, with special tokens or in its chat template
//   throws InvalidInput where even two tokens of the text are too many
LongBenchPrompt longbench_prompt(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                 const LongBenchLimits& limits,
                                 const std::function<std::vector<std::int32_t>(const std::string&)>& encode);

}  // namespace keyscope::evaluation
