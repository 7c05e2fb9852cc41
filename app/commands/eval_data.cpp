#include "app/commands/eval_data.hpp"

#include "app/commands/option_checks.hpp"

namespace keyscope::commands {

void EvalDataOptions::add_to(CLI::App& command, const std::string& data_help) {
  command.add_option("--data", data_, data_help)->required()->check(not_empty());
  command.add_option("--rows", rows_, "Only the first N rows (of LongBench: of each task)")
      ->check(one_or_more());
  CLI::Option* chat = command.add_flag("--chat", chat_, "Refuse a model that has no chat template");
  command
      .add_flag(
          "--no-chat", no_chat_,
          "Ask without the model's chat template, which is used where it has one and the benchmark does")
      ->excludes(chat);
  command.add_flag("--skip-bad", skip_bad_, "Go on without rows that cannot be used, naming them");
}

evaluation::ChatUse EvalDataOptions::chat() const {
  if (no_chat_) return evaluation::ChatUse::kNever;
  return chat_ ? evaluation::ChatUse::kAlways : evaluation::ChatUse::kIfThere;
}

}  // namespace keyscope::commands
