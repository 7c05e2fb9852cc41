#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "capture/tokenizer/chat_template.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::evaluation {

// Whether prompts become a user's turn.
enum class ChatUse {
  kIfThere,  // where the model has a chat template
  kAlways,   // a model without one is refused
  kNever,
};

// "if there", "always", "never".
const char* chat_word(ChatUse use);

// How texts become prompts of a model.
class PromptEncoder {
 public:
  //   model_folder: where the chat template is looked for, unless none is used
  //   throws FileError on a template that is of no known kind or damaged, and where one is missing that is
  //   always to be used
  PromptEncoder(const tokenizer::Tokenizer& tokenizer, const std::filesystem::path& model_folder,
                ChatUse use);

  bool has_chat() const { return template_.has_value(); }

  // As text, with the post-processor's special tokens.
  std::vector<std::int32_t> plain(const std::string& text) const;
  // As the user's turn, where there is a template. Templates that tell the date get 26 July 2024, their own
  // where there is no clock: prompts that are scored must not depend on the day.
  std::vector<std::int32_t> turn(const std::string& text) const;

 private:
  const tokenizer::Tokenizer& tokenizer_;
  std::optional<tokenizer::ChatTemplate> template_;
};

}  // namespace keyscope::evaluation
