#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/option_checks.hpp"
#include "app/commands/text_input.hpp"

namespace keyscope::commands {
namespace {

std::string read_text(const std::string& path) { return TextInput(path).read_all(); }

std::vector<std::int32_t> parse_ids(const std::string& text, const std::string& path) {
  // Ids are numbers: nothing is nested, and nothing need be parsed further where something is.
  bool nested = false;
  const auto flat = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    nested = nested || depth > 1;
    return depth <= 1;
  };
  const auto json = nlohmann::json::parse(text, flat, false);
  if (!json.is_array() || nested)
    throw FileError(fmt::format("{}: a JSON array of token ids is expected, such as [1, 80, 147]", path));
  std::vector<std::int32_t> ids;
  ids.reserve(json.size());
  for (const auto& entry : json) {
    const bool fits =
        entry.is_number_integer() && entry.get<std::int64_t>() >= 0 && entry.get<std::int64_t>() <= INT32_MAX;
    if (!fits)
      throw FileError(fmt::format("{}: entry {} is {}, expected a token id (an integer from 0)", path,
                                  ids.size(), entry.dump().substr(0, 40)));
    ids.push_back(entry.get<std::int32_t>());
  }
  return ids;
}

}  // namespace

void ChatOptions::add_to(CLI::App& command, std::initializer_list<CLI::Option*> excluded) {
  auto* chat = command.add_flag("--chat", form_.chat,
                                "The text is the user's turn: put it into the model's chat template");
  command.add_option("--system", form_.system, "With --chat: the text of the system turn")->needs(chat);
  for (auto* option : excluded) chat->excludes(option);
}

tokenizer::PromptForm ChatOptions::form() const {
  if (form_.system) require_utf8(*form_.system, "--system");
  return form_;
}

void PromptOptions::add_to(CLI::App& command) {
  auto* text = command.add_option("--prompt", text_, "The prompt itself");
  auto* file = command.add_option("--prompt-file", file_, "A UTF-8 text file with the prompt; - is stdin");
  auto* ids = command.add_option("--prompt-ids", ids_file_, "A JSON array of token ids, used as they are");
  text->excludes(file)->excludes(ids);
  file->excludes(ids);
  chat_.add_to(command, {ids});
  command.add_option("--max-tokens", max_tokens_, "Keep only the first N prompt tokens")
      ->check(one_or_more());
}

std::optional<std::string> PromptOptions::text() const {
  if (text_) require_utf8(*text_, "--prompt");
  if (text_) return text_;
  return file_ ? std::optional(read_text(*file_)) : std::nullopt;
}

std::vector<std::int32_t> PromptOptions::read(const tokenizer::Tokenizer* tokenizer,
                                              const std::filesystem::path& model_folder) const {
  std::vector<std::int32_t> ids;
  if (ids_file_) {
    ids = parse_ids(read_text(*ids_file_), *ids_file_);
  } else {
    const auto prompt = text();
    if (!prompt) throw UsageError("a prompt is needed: --prompt, --prompt-file or --prompt-ids");
    if (tokenizer == nullptr)
      throw FileError("the model's folder has no tokenizer.json, so text cannot be read; give --prompt-ids");
    ids = tokenizer::encode_prompt(*tokenizer, model_folder, *prompt, form());
  }
  if (max_tokens_ && static_cast<std::int64_t>(ids.size()) > *max_tokens_)
    ids.resize(static_cast<std::size_t>(*max_tokens_));
  return ids;
}

}  // namespace keyscope::commands
