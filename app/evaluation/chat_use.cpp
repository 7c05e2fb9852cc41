#include "app/evaluation/chat_use.hpp"

#include <chrono>

#include "capture/model/strict_json.hpp"

namespace keyscope::evaluation {
namespace {

constexpr std::chrono::year_month_day kDay = std::chrono::July / 26 / 2024;

// Where ChatTemplate::load looks for one.
bool has_template(const std::filesystem::path& model_folder) {
  if (std::filesystem::exists(model_folder / "chat_template.jinja")) return true;
  const auto config_file = model_folder / "tokenizer_config.json";
  if (!std::filesystem::exists(config_file)) return false;
  const auto config = capture::parse_json_object(capture::read_small_file(config_file), config_file.string());
  return config.contains("chat_template") && !config["chat_template"].is_null();
}

std::optional<tokenizer::ChatTemplate> chat_template(const std::filesystem::path& model_folder, ChatUse use) {
  if (use == ChatUse::kNever || (use == ChatUse::kIfThere && !has_template(model_folder)))
    return std::nullopt;
  return tokenizer::ChatTemplate::load(model_folder);
}

}  // namespace

const char* chat_word(ChatUse use) {
  switch (use) {
    case ChatUse::kAlways:
      return "always";
    case ChatUse::kNever:
      return "never";
    case ChatUse::kIfThere:
      break;
  }
  return "if there";
}

PromptEncoder::PromptEncoder(const tokenizer::Tokenizer& tokenizer, const std::filesystem::path& model_folder,
                             ChatUse use)
    : tokenizer_(tokenizer), template_(chat_template(model_folder, use)) {}

std::vector<std::int32_t> PromptEncoder::plain(const std::string& text) const {
  return tokenizer_.encode(text, true);
}

std::vector<std::int32_t> PromptEncoder::turn(const std::string& text) const {
  if (!template_) return plain(text);
  return tokenizer_.encode(template_->render(text, std::nullopt, kDay), false);
}

}  // namespace keyscope::evaluation
