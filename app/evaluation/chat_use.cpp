#include "app/evaluation/task_data.hpp"

#include <chrono>

namespace keyscope::evaluation {
namespace {

constexpr std::chrono::year_month_day kDay = std::chrono::July / 26 / 2024;

std::optional<tokenizer::ChatTemplate> chat_template(const std::filesystem::path& model_folder, ChatUse use) {
  switch (use) {
    case ChatUse::kNever:
      return std::nullopt;
    case ChatUse::kAlways:
      return tokenizer::ChatTemplate::load(model_folder);
    case ChatUse::kIfThere:
      break;
  }
  return tokenizer::ChatTemplate::load_if_there(model_folder);
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
