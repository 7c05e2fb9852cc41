#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/tokenizer/template_skeleton.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::tokenizer {

// One kind of chat template: how it is recognised, and what it prints for one user's turn.
//
// Prompts are written with slots: {bos} and {eos} of the model, the texts {user} and {system}, {date} as "26
// Jul 2024", {default} for the system text that the template itself holds; what stands between {strip} and
// {/strip} loses its white space at both ends, as Python's str.strip takes it.
struct ChatKind {
  std::string name;  // the families that have it
  std::string
      source;  // a template of this kind, reduced to its skeleton; {{ default_system }} stands for any text
  std::string prompt;               // without a system text
  std::string with_system;          // with one; empty where the template has no place for it
  bool drops_empty_system = false;  // an empty system text counts as none
};

// Every kind that is known.
const std::vector<ChatKind>& chat_kinds();

// What holds where a template is given messages of `system` and `user` alone, no tools, and asked for the
// generation prompt, as Transformers' apply_chat_template does it.
const KnownConditions& plain_chat_conditions();

// A model's chat template, for one user's turn. Templates are Jinja programs; those of the kinds in
// chat_kinds are rendered as Transformers' apply_chat_template(…, add_generation_prompt=True) renders them,
// all others are refused.
class ChatTemplate {
 public:
  // The texts of the tokens that templates name.
  struct SpecialTokens {
    std::optional<std::string> bos, eos;
  };

  // Reads DIR/chat_template.jinja, or else `chat_template` of DIR/tokenizer_config.json (a string, or the one
  // named "default" of a list), and the special tokens from tokenizer_config.json and
  // special_tokens_map.json.
  //   throws FileError where there is no template, none that is known, or a file is damaged
  static ChatTemplate load(const std::filesystem::path& model_folder);

  // The same of a model that need not have a template; none where it has none.
  //   throws FileError where it is of no known kind, or a file is damaged
  static std::optional<ChatTemplate> load_if_there(const std::filesystem::path& model_folder);

  //   source: the template's text; name: of its file, for messages
  //   throws FileError where the template is of no known kind
  ChatTemplate(std::string_view source, SpecialTokens tokens, std::string name);

  // The prompt with its special tokens, up to where the model is to answer.
  //   system: the system turn's text; nullopt leaves it to the template, which may have a text of its own
  //   today: for templates that tell the date
  //   throws UsageError on a system text that the template has no place for, FileError on a special token
  //   that the template needs and the model's files do not name
  std::string render(std::string_view user, const std::optional<std::string>& system,
                     std::chrono::year_month_day today) const;

  const std::string& kind() const { return kind_->name; }

 private:
  std::string slot(std::string_view slot, std::string_view user, std::string_view system,
                   std::chrono::year_month_day today) const;
  const std::string& special_token(const std::optional<std::string>& token, const char* field) const;

  const ChatKind* kind_ = nullptr;
  std::string default_system_;
  SpecialTokens tokens_;
  std::string name_;
};

// The date here and now.
std::chrono::year_month_day local_today();

// How a prompt's text becomes ids.
struct PromptForm {
  bool chat = false;                  // as the user's turn of the model's chat template
  std::optional<std::string> system;  // only with `chat`
};

// Throws what encode_prompt would throw of the chat template.
void check_prompt_form(const std::filesystem::path& model_folder, const PromptForm& form);

// The ids of a prompt: as text with the post-processor's special tokens, or in the chat template, which
// writes its special tokens itself; its date is today's, in local time.
//   model_folder: where the chat template is looked for
//   throws what ChatTemplate and Tokenizer::encode throw
std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, const std::filesystem::path& model_folder,
                                        std::string_view text, const PromptForm& form);

}  // namespace keyscope::tokenizer
