#include "capture/tokenizer/chat_template.hpp"

#include <algorithm>
#include <initializer_list>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/gguf/gguf.hpp"
#include "capture/jinja/syntax.hpp"
#include "capture/tokenizer/gguf_tokenizer.hpp"

namespace keyscope::tokenizer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::uintmax_t kLargestTemplateFile = std::uintmax_t{1} << 26U;
constexpr int kDeepestRequest = 100;  // of a request in JSON

// nullopt where there is no such file.
std::optional<std::string> read_if_there(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const auto size = fs::file_size(path, error);  // fails on what is no regular file
  if (error || size > kLargestTemplateFile)
    throw FileError(fmt::format("{}: cannot be read; expected a file of at most {} bytes", path.string(),
                                kLargestTemplateFile));
  return read_file(path, size);
}

// A file's object, without what lies deeper than anything that is asked for; empty where there is no such
// file. Of a GGUF file, what it holds of a tokenizer_config.json.
json read_json(const fs::path& path) {
  const auto text = gguf::is_gguf(path) ? gguf_tokenizer_config(gguf::Container(path)) : read_if_there(path);
  if (!text) return json::object();
  const auto shallow = [](int depth, json::parse_event_t, json&) { return depth <= 16; };
  json document = json::parse(*text, shallow, false);
  if (!document.is_object())
    throw FileError(fmt::format("{}: found no JSON object, expected one", path.string()));
  return document;
}

struct Source {
  std::string file, text;
};

std::map<std::string, Source> template_files(const fs::path& folder) {
  std::map<std::string, Source> sources;
  const auto add = [&](const std::string& name, const fs::path& path) {
    if (auto text = read_if_there(path)) sources[name] = {path.string(), *std::move(text)};
  };
  add("default", folder / "chat_template.jinja");
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "additional_chat_templates", error))
    if (entry.path().extension() == ".jinja") add(entry.path().stem().string(), entry.path());
  return sources;
}

// The templates in tokenizer_config.json.
std::map<std::string, Source> configured_templates(const JsonField& config) {
  std::map<std::string, Source> sources;
  const auto field = config.optional("chat_template");
  if (!field) return sources;
  const auto add = [&](const std::string& name, const JsonField& text) {
    sources[name] = {fmt::format("{}: {}", text.file(), text.path()), text.string()};
  };
  if (!field->is_array())
    add("default", *field);
  else
    field->for_each(
        [&](const JsonField& entry) { add(entry.member("name").string(), entry.member("template")); });
  return sources;
}

// The special tokens of a tokenizer whose files do not speak of them: those of Transformers' class for it.
ChatTemplate::SpecialTokens tokens_of_class(const JsonField& config) {
  const std::string name = config.string_or("tokenizer_class", "");
  const auto is_any = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view each) { return name.starts_with(each); });
  };
  if (is_any({"LlamaTokenizer", "CodeLlamaTokenizer", "Phi3Tokenizer"}))
    return {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
  if (is_any({"GemmaTokenizer"}))
    return {{"bos_token", "<bos>"},
            {"eos_token", "<eos>"},
            {"unk_token", "<unk>"},
            {"pad_token", "<pad>"},
            {"mask_token", "<mask>"}};
  if (is_any({"Qwen2Tokenizer"}))
    return {{"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}, {"pad_token", "<|endoftext|>"}};
  if (is_any({"GPT2Tokenizer"}))
    return {{"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}, {"unk_token", "<|endoftext|>"}};
  return {};
}

// Those that Transformers passes to templates, each written as a text, as an object with its content, or as
// null where there is none; tokenizer_config.json has the last word.
ChatTemplate::SpecialTokens special_tokens(const JsonField& map, const JsonField& config) {
  ChatTemplate::SpecialTokens tokens = tokens_of_class(config);
  for (const JsonField& document : {map, config})
    document.for_each_member([&](const JsonField& field) {
      const std::string& name = field.path();
      const auto known = {"bos_token", "eos_token", "unk_token", "sep_token",
                          "pad_token", "cls_token", "mask_token"};
      if (std::find(known.begin(), known.end(), name) == known.end()) return;
      if (field.is_null())
        tokens.erase(name);
      else
        tokens[name] = field.is_object() ? field.member("content").string() : field.string();
    });
  return tokens;
}

jinja::Template parsed(std::string_view source, const std::string& file) {
  std::string buffer;
  try {
    return jinja::Template(replace_invalid_utf8(source, buffer));
  } catch (const jinja::SyntaxError& error) {
    throw FileError(fmt::format("{}: line {}: {}", file, error.line(), error.what()));
  }
}

// A message without what is null, its reasoning under all names that templates know it by.
ordered_json as_passed(const ordered_json& message) {
  ordered_json given = ordered_json::object();
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) given[key] = value;
  for (const char* key : {"reasoning_content", "thinking", "reasoning"}) {
    if (!given.contains(key)) continue;
    const ordered_json reasoning = given[key];
    ordered_json aliased{{"thinking", reasoning}};
    aliased.update(given);
    aliased["reasoning_content"] = reasoning;
    return aliased;
  }
  return given;
}

// A request's members as the template's variables, its messages as Transformers passes them.
ordered_json variables_of(const ordered_json& request, const ChatTemplate::SpecialTokens& tokens,
                          const std::string& name) {
  ordered_json variables;
  for (const auto& [token, text] : tokens) variables[token] = text;
  variables["tools"] = nullptr;
  variables["documents"] = nullptr;
  variables["add_generation_prompt"] = true;
  if (request.is_object()) variables.update(request);
  if (request.is_array()) variables["messages"] = request;
  const auto messages = variables.find("messages");
  if (messages == variables.end() || !messages->is_array() || messages->empty())
    throw FileError(
        fmt::format("{}: found no messages; expected an array such as [{{\"role\": \"user\", "
                    "\"content\": \"Hello\"}}], or an object with it as \"messages\"",
                    name));
  if (variables.contains("continue_final_message"))
    throw FileError(fmt::format("{}: continue_final_message is not supported", name));
  for (ordered_json& message : *messages) {
    if (!message.is_object())
      throw FileError(fmt::format("{}: message {} is {}, expected an object with \"role\" and \"content\"",
                                  name, &message - &messages->front(), json_text(message)));
    message = as_passed(message);
  }
  return variables;
}

ordered_json one_turn(std::string_view user, const std::optional<std::string>& system) {
  const auto message = [](const char* role, std::string_view content) {
    std::string buffer;
    return ordered_json{{"role", role}, {"content", replace_invalid_utf8(content, buffer)}};
  };
  ordered_json messages = ordered_json::array();
  if (system) messages.push_back(message("system", *system));
  messages.push_back(message("user", user));
  return messages;
}

}  // namespace

ChatTemplate ChatTemplate::load(const fs::path& model_folder) {
  if (auto found = load_if_there(model_folder)) return *std::move(found);
  throw FileError(
      fmt::format("{}: found no chat template, {}; "
                  "take a checkpoint made for chat, or give the prompt as it is, without --chat",
                  model_folder.string(),
                  gguf::is_gguf(model_folder)
                      ? "no tokenizer.chat_template"
                      : "neither chat_template.jinja nor `chat_template` in tokenizer_config.json"));
}

std::optional<ChatTemplate> ChatTemplate::load_if_there(const fs::path& model_folder) {
  const fs::path config_file =
      gguf::is_gguf(model_folder) ? model_folder : model_folder / "tokenizer_config.json";
  const fs::path map_file = model_folder / "special_tokens_map.json";
  const json config_json = read_json(config_file), map_json = read_json(map_file);
  const JsonField config(config_json, config_file.string(), ""), map(map_json, map_file.string(), "");
  auto sources = template_files(model_folder);
  if (sources.empty()) sources = configured_templates(config);
  if (sources.empty()) return std::nullopt;
  std::map<std::string, Named> templates;
  std::vector<std::string> names;
  for (const auto& [name, source] : sources) {
    names.push_back(shown(name));
    if (name == "default" || name == "tool_use")
      templates.emplace(name, Named{source.file, parsed(source.text, source.file)});
  }
  if (!templates.contains("default"))
    throw FileError(fmt::format("{}: found templates named {}, expected one named \"default\"",
                                sources.begin()->second.file, shown_list(names)));
  return ChatTemplate(std::move(templates), special_tokens(map, config));
}

ChatTemplate::ChatTemplate(std::map<std::string, Named> templates, SpecialTokens tokens)
    : templates_(std::move(templates)), tokens_(std::move(tokens)) {}

ChatTemplate::ChatTemplate(std::string_view source, SpecialTokens tokens, std::string name)
    : tokens_(std::move(tokens)) {
  jinja::Template jinja = parsed(source, name);
  templates_.emplace("default", Named{std::move(name), std::move(jinja)});
}

const ChatTemplate::Named& ChatTemplate::template_for(const ordered_json& variables) const {
  const auto with_tools = templates_.find("tool_use");
  if (with_tools != templates_.end() && !variables["tools"].is_null()) return with_tools->second;
  return templates_.at("default");
}

std::string ChatTemplate::render(const ordered_json& request, const std::string& name,
                                 const std::tm& now) const {
  const ordered_json variables = variables_of(request, tokens_, name);
  const auto& [file, jinja] = template_for(variables);
  try {
    return jinja.render(variables, now);
  } catch (const jinja::RenderError& error) {
    if (error.is_raised())
      throw UsageError(fmt::format("the chat template refuses these messages: {} ({}, line {})", error.what(),
                                   file, error.line()));
    const std::string_view what = error.what();
    const bool misses_token = what.ends_with("_token' is undefined");
    throw FileError(fmt::format(
        "{}: line {}: {}{}", file, error.line(), what,
        misses_token ? "; neither tokenizer_config.json nor special_tokens_map.json has it" : ""));
  }
}

std::string ChatTemplate::render(std::string_view user, const std::optional<std::string>& system,
                                 const std::tm& now) const {
  const std::string name = "the prompt";
  std::string text = render(one_turn(user, system), name, now);
  // A template without a place for a system text may say nothing about it.
  const std::string probe = "systemtextprobe";
  if (system && render(one_turn(user, probe), name, now).find(probe) == std::string::npos)
    throw UsageError(
        fmt::format("--system: this template has no system turn; put the text into the prompt ({})",
                    templates_.at("default").file));
  return text;
}

std::tm local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return parts;
}

void check_prompt_form(const fs::path& model_folder, const PromptForm& form) {
  if (!form.chat && form.messages.empty()) return;
  const auto chat = ChatTemplate::load(model_folder);
  if (form.chat) chat.render("text", form.system, local_now());
}

std::string chat_text(const ChatTemplate& chat, std::string_view text, const PromptForm& form) {
  if (form.chat) return chat.render(text, form.system, local_now());
  const auto too_deep = [](int depth, ordered_json::parse_event_t, ordered_json&) {
    if (depth > kDeepestRequest)
      throw FileError(fmt::format("found values nested deeper than {}", kDeepestRequest));
    return true;
  };
  ordered_json request;
  try {
    request = ordered_json::parse(text, too_deep);
  } catch (const ordered_json::exception& error) {
    throw FileError(
        fmt::format("{}: found no JSON ({}), expected an array of messages", form.messages, error.what()));
  }
  return chat.render(request, form.messages, local_now());
}

std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, const fs::path& model_folder,
                                        std::string_view text, const PromptForm& form) {
  if (!form.chat && form.messages.empty()) return tokenizer.encode(text, true);
  return tokenizer.encode(chat_text(ChatTemplate::load(model_folder), text, form), false);
}

}  // namespace keyscope::tokenizer
