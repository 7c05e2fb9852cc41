#include "app/commands/study_cells.hpp"

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/sweep/study_file.hpp"
#include "app/sweep/study_plan.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::commands {

// What one result depends on is what an evaluation of it alone would.
std::string eval_cell(const evaluation::Settings& settings, const evaluation::AskedResult& asked) {
  const evaluation::GridPoint& point = *asked.point;
  evaluation::Settings alone = settings;
  alone.policies.clear();
  alone.budgets.clear();
  alone.blocks = {point.block};
  if (point.evicts()) {
    alone.policies = {{point.policy, point.spec}};
    alone.budgets = {{point.budget_text, point.budget}};
  }
  alone.task_settings["examples_sha256"] = evaluation::examples_sha256({asked.example, 1});
  return sweep::cell_digest({{"command", "eval"}, {"settings", evaluation::settings_json(alone)}});
}

std::string validate_cell(const validation::Settings& settings, const results::Prompt& prompt) {
  return sweep::cell_digest(
      {{"command", "validate"},
       {"key", validation::prompt_key(validation::settings_json(settings), prompt.ids)}});
}

void StudyChoice::add_to(CLI::App& command) {
  command.add_option(
      "--from", path_,
      "A merged study (`sweep merge`): results that it has are taken from there, the others are "
      "computed here");
}

void StudyChoice::open(const std::string& out) {
  if (path_.empty()) return;
  if (out.empty()) throw UsageError("--from: needs --out, the folder that its results are put into");
  study_ = std::make_shared<const sweep::StudyFile>(path_);
}

evaluation::FindLine StudyChoice::find_line() {
  if (!study_) return {};
  return [this](const evaluation::Settings& settings,
                const evaluation::AskedResult& asked) -> std::optional<std::string> {
    auto lines = study_->lines(eval_cell(settings, asked));
    if (!lines) return std::nullopt;
    ++n_taken_;
    return lines->substr(0, lines->find('\n'));
  };
}

validation::FindRecord StudyChoice::find_record() {
  if (!study_) return {};
  return [this](const validation::Settings& settings, const results::Prompt& prompt) {
    auto lines = study_->lines(validate_cell(settings, prompt));
    n_taken_ += lines ? 1 : 0;
    return lines;
  };
}

std::string StudyChoice::summary() const {
  if (!study_) return {};
  if (n_taken_ > 0) return fmt::format("From {}: {}.\n", path_, counted(n_taken_, "result"));
  return fmt::format("From {}: nothing, as it has no result of these settings (or all were there before).\n",
                     path_);
}

}  // namespace keyscope::commands
