#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "capture/model/config.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::validation {

// One prompt of a prompts file.
struct Prompt {
  std::string name;               // as the file gives it, else "line 3"
  std::vector<std::int32_t> ids;  // at least one
  std::string beginning;          // the first words, for people; empty where there is no tokenizer
  std::int64_t line = 0;          // from 1
};

// Reads a file with a JSON object a line: {"prompt": "text"} or {"ids": [1, 80, 147]}, either with a "name";
// other fields are left alone. Text is tokenised as `capture --prompt` does it.
//   tokenizer: may be null, then only "ids" works
//   max_tokens: what is longer is cut
//   throws FileError naming file, line, what was found and what was expected, where the file or a line of it
//   cannot be read, a prompt is empty, longer than the model's context or has ids that the model has not, and
//   where two lines give the same tokens, which would count twice
std::vector<Prompt> read_prompts(const std::filesystem::path& path, const capture::ModelConfig& model,
                                 const tokenizer::Tokenizer* tokenizer,
                                 std::optional<std::int64_t> max_tokens);

}  // namespace keyscope::validation
