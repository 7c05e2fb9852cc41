#pragma once

#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "capture/jinja/template.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::tokenizer {

// A model's chat template, rendered as apply_chat_template of Transformers 5.24 renders it.
class ChatTemplate {
 public:
  // Texts of special tokens by the names that templates know them under: "bos_token", "eos_token" and so on.
  using SpecialTokens = std::map<std::string, std::string>;

  // Reads DIR/chat_template.jinja and DIR/additional_chat_templates/*.jinja, or else `chat_template` of
  // DIR/tokenizer_config.json (a string, or a list of named ones), and the special tokens from
  // tokenizer_config.json and special_tokens_map.json. Of a GGUF file, those that it holds.
  //   throws FileError where there is no template, it is no Jinja, or a file is damaged
  static ChatTemplate load(const std::filesystem::path& model_folder);

  // The same of a model that need not have a template; none where it has none.
  static std::optional<ChatTemplate> load_if_there(const std::filesystem::path& model_folder);

  //   source: the template's text; name: of its file, for messages
  //   throws FileError where the template is no Jinja
  ChatTemplate(std::string_view source, SpecialTokens tokens, std::string name);

  // The prompt of one user's turn, with its special tokens, up to where the model is to answer.
  //   system: the system turn's text; nullopt leaves it to the template, which may have a text of its own
  //   now: for templates that tell the date
  //   throws UsageError where the template refuses the messages or passes over the system text, FileError
  //   where it fails
  std::string render(std::string_view user, const std::optional<std::string>& system,
                     const std::tm& now) const;

  // The prompt of a request as applications send it: an array of messages, or an object with `messages` and
  // what else the template asks for, `tools` and `enable_thinking` for example. It ends where the model is to
  // answer, unless `add_generation_prompt` is false.
  //   name: of the request, for messages
  //   throws as above, and FileError where the request has no messages
  std::string render(const nlohmann::ordered_json& request, const std::string& name,
                     const std::tm& now) const;

 private:
  // Of several, Transformers takes "default", and "tool_use" where there are tools.
  struct Named {
    std::string file;  // for messages
    jinja::Template jinja;
  };
  ChatTemplate(std::map<std::string, Named> templates, SpecialTokens tokens);

  const Named& template_for(const nlohmann::ordered_json& variables) const;

  std::map<std::string, Named> templates_;
  SpecialTokens tokens_;
};

// The date and time here and now.
std::tm local_now();

// How a prompt's text becomes ids.
struct PromptForm {
  bool chat = false;                  // as the user's turn of the model's chat template
  std::optional<std::string> system;  // only with `chat`
  std::string messages;               // the text is a request in JSON: its name, for messages; else empty
  bool operator==(const PromptForm&) const = default;
};

// Throws what encode_prompt would throw of the chat template, whatever the text.
void check_prompt_form(const std::filesystem::path& model_folder, const PromptForm& form);

// A prompt's text as the model's chat template makes it of what the user gave; its date is today's, in local
// time. Text that is for no template stays as it is.
//   throws what ChatTemplate throws, and FileError on a request that is no JSON
std::string chat_text(const ChatTemplate& chat, std::string_view text, const PromptForm& form);

// The ids of a prompt: as text with the post-processor's special tokens, or in the chat template, which
// writes its special tokens itself.
//   model_folder: where the chat template is looked for
//   throws what ChatTemplate and Tokenizer::encode throw
std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, const std::filesystem::path& model_folder,
                                        std::string_view text, const PromptForm& form);

}  // namespace keyscope::tokenizer
