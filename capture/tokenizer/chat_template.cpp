#include "capture/tokenizer/chat_template.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/tokenizer/characters.hpp"
#include "capture/tokenizer/template_skeleton.hpp"

namespace keyscope::tokenizer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uintmax_t kLargestTemplateFile = std::uintmax_t{1} << 26U;

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
// file.
json read_json(const fs::path& path) {
  const auto text = read_if_there(path);
  if (!text) return json::object();
  constexpr int kDeepest = 16;
  const auto shallow = [](int depth, json::parse_event_t, json&) { return depth <= kDeepest; };
  json document = json::parse(*text, shallow, false);
  if (!document.is_object())
    throw FileError(fmt::format("{}: found no JSON object, expected one", path.string()));
  return document;
}

// The template in tokenizer_config.json; of several the one that Transformers takes where there are no tools.
std::optional<std::string> configured_template(const JsonField& config) {
  const auto field = config.optional("chat_template");
  if (!field || !field->is_array()) return field ? std::optional(field->string()) : std::nullopt;
  std::optional<std::string> found;
  std::vector<std::string> names;
  field->for_each([&](const JsonField& entry) {
    names.push_back(shown(entry.member("name").string()));
    if (entry.member("name").string() == "default") found = entry.member("template").string();
  });
  if (!found) field->fail(fmt::format("templates named {}", fmt::join(names, ", ")), "one named \"default\"");
  return found;
}

// A token as written, or as an object with its content.
std::optional<std::string> special_token_text(const JsonField& document, const std::string& name) {
  const auto field = document.optional(name);
  if (!field) return std::nullopt;
  return field->is_object() ? field->member("content").string() : field->string();
}

// Python's str.isspace: White_Space, and the four separators of ASCII.
bool is_python_space(char32_t c) { return (character_classes(c) & kSpace) != 0 || (c >= 0x1C && c <= 0x1F); }

// Takes away the white space at both ends of text[from, end).
void strip(std::string& text, std::size_t from) {
  std::size_t first = from;
  for (std::size_t at = from; at < text.size() && is_python_space(next_code_point(text, at));) first = at;
  std::size_t last = first;
  for (std::size_t at = first; at < text.size();)
    if (!is_python_space(next_code_point(text, at))) last = at;
  text.erase(last);
  text.erase(from, first - from);
}

// The text that stands in place of {{ default_system }}; nullopt where the skeletons differ.
std::optional<std::string> match(const std::string& skeleton, const std::string& kind) {
  static const std::string kDefault = skeleton_output("default_system");
  const auto at = kind.find(kDefault);
  if (at == std::string::npos) return skeleton == kind ? std::optional<std::string>("") : std::nullopt;
  const std::string_view before = std::string_view(kind).substr(0, at);
  const std::string_view behind = std::string_view(kind).substr(at + kDefault.size());
  if (skeleton.size() < before.size() + behind.size() || !skeleton.starts_with(before) ||
      !skeleton.ends_with(behind))
    return std::nullopt;
  std::string text = skeleton.substr(before.size(), skeleton.size() - before.size() - behind.size());
  return is_plain_text(text) ? std::optional(std::move(text)) : std::nullopt;
}

// strftime's "%d %b %Y" in the C locale, which Python stays in unless told otherwise.
std::string date_text(std::chrono::year_month_day date) {
  constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{:02} {} {}", static_cast<unsigned>(date.day()),
                     kMonths.at(static_cast<unsigned>(date.month()) - 1), static_cast<int>(date.year()));
}

std::string kind_names() {
  std::string names;
  for (const auto& kind : chat_kinds()) names += (names.empty() ? "" : "; ") + kind.name;
  return names;
}

}  // namespace

ChatTemplate ChatTemplate::load(const fs::path& model_folder) {
  if (auto found = load_if_there(model_folder)) return *std::move(found);
  throw FileError(fmt::format(
      "{}: found no chat template, neither chat_template.jinja nor `chat_template` in tokenizer_config.json; "
      "take a checkpoint made for chat, or give the prompt as it is, without --chat",
      model_folder.string()));
}

std::optional<ChatTemplate> ChatTemplate::load_if_there(const fs::path& model_folder) {
  const fs::path file = model_folder / "chat_template.jinja";
  const fs::path config_file = model_folder / "tokenizer_config.json";
  const json config_json = read_json(config_file);
  const JsonField config(config_json, config_file.string(), "");
  std::string name = file.string();
  auto source = read_if_there(file);
  if (!source) {
    name = config_file.string() + ": chat_template";
    source = configured_template(config);
  }
  if (!source) return std::nullopt;
  const json map_json = read_json(model_folder / "special_tokens_map.json");
  const JsonField map(map_json, (model_folder / "special_tokens_map.json").string(), "");
  SpecialTokens tokens;
  for (const JsonField& document : {map, config}) {  // tokenizer_config.json has the last word
    if (auto bos = special_token_text(document, "bos_token")) tokens.bos = std::move(bos);
    if (auto eos = special_token_text(document, "eos_token")) tokens.eos = std::move(eos);
  }
  return ChatTemplate(*source, std::move(tokens), std::move(name));
}

ChatTemplate::ChatTemplate(std::string_view source, SpecialTokens tokens, std::string name)
    : tokens_(std::move(tokens)), name_(std::move(name)) {
  const auto skeleton = template_skeleton(source, plain_chat_conditions());
  for (const auto& kind : chat_kinds()) {
    const auto known = template_skeleton(kind.source, plain_chat_conditions());
    const auto default_system = skeleton && known ? match(*skeleton, *known) : std::nullopt;
    if (!default_system) continue;
    kind_ = &kind;
    default_system_ = *default_system;
    return;
  }
  throw FileError(
      fmt::format("{}: found a template of no kind that is known here, and none is rendered by guess; known "
                  "are: {}. Render the "
                  "prompt with Transformers' apply_chat_template and give its ids as --prompt-ids",
                  name_, kind_names()));
}

std::string ChatTemplate::render(std::string_view user, const std::optional<std::string>& system,
                                 std::chrono::year_month_day today) const {
  if (system && kind_->with_system.empty())
    throw UsageError(
        fmt::format("--system: this template ({}) has no system turn; put the text into the prompt ({})",
                    kind_->name, name_));
  std::string user_buffer, system_buffer;
  user = replace_invalid_utf8(user, user_buffer);
  const std::string_view system_text = system ? replace_invalid_utf8(*system, system_buffer) : "";
  const bool with_system = system && !(system->empty() && kind_->drops_empty_system);
  const std::string_view form = with_system ? kind_->with_system : kind_->prompt;
  std::string text;
  std::size_t strip_from = 0;
  for (std::size_t at = 0; at < form.size();) {
    const std::size_t open = std::min(form.find('{', at), form.size());
    text += form.substr(at, open - at);
    if (open == form.size()) break;
    const std::size_t close = form.find('}', open);
    const std::string_view name = form.substr(open + 1, close - open - 1);
    at = close + 1;
    if (name == "strip")
      strip_from = text.size();
    else if (name == "/strip")
      strip(text, strip_from);
    else
      text += slot(name, user, system_text, today);
  }
  return text;
}

std::string ChatTemplate::slot(std::string_view slot, std::string_view user, std::string_view system,
                               std::chrono::year_month_day today) const {
  if (slot == "user") return std::string(user);
  if (slot == "system") return std::string(system);
  if (slot == "default") return default_system_;
  if (slot == "date") return date_text(today);
  return slot == "bos" ? special_token(tokens_.bos, "bos_token") : special_token(tokens_.eos, "eos_token");
}

const std::string& ChatTemplate::special_token(const std::optional<std::string>& token,
                                               const char* field) const {
  if (!token)
    throw FileError(fmt::format(
        "{}: the template names {}, and neither tokenizer_config.json nor special_tokens_map.json has it",
        name_, field));
  return *token;
}

std::chrono::year_month_day local_today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return {std::chrono::year(parts.tm_year + 1900),
          std::chrono::month(static_cast<unsigned>(parts.tm_mon + 1)),
          std::chrono::day(static_cast<unsigned>(parts.tm_mday))};
}

void check_prompt_form(const fs::path& model_folder, const PromptForm& form) {
  if (form.chat) ChatTemplate::load(model_folder).render("", form.system, local_today());
}

std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, const fs::path& model_folder,
                                        std::string_view text, const PromptForm& form) {
  if (!form.chat) return tokenizer.encode(text, true);
  return tokenizer.encode(ChatTemplate::load(model_folder).render(text, form.system, local_today()), false);
}

}  // namespace keyscope::tokenizer
