#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "app/adoption/measurement.hpp"
#include "app/adoption/tasks.hpp"
#include "app/commands/eval.hpp"
#include "app/commands/report.hpp"
#include "app/commands/study_cells.hpp"
#include "app/commands/sweep_jobs.hpp"
#include "app/commands/validate.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/results/prompts.hpp"
#include "app/validation/validation.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"

namespace keyscope::commands {

namespace {

using Json = nlohmann::ordered_json;
using sweep::Cell;

// `eval TASK`: a cell is an example under a grid point, a batch what is run together.
using Examples = std::vector<evaluation::Example>;

class EvalJob final : public sweep::Job {
 public:
  //   settings: with task and model
  EvalJob(std::shared_ptr<const capture::Model> model, evaluation::Settings settings, Examples examples,
          evaluation::Scorer scorer)
      : model_(std::move(model)),
        settings_(std::move(settings)),
        examples_(std::move(examples)),
        scorer_(std::move(scorer)) {
    evaluation::check_examples(settings_, examples_, *model_);
    grid_ = evaluation::grid_of(settings_);
    groups_ = evaluation::asked_groups(examples_, grid_);
    for (const auto& group : groups_) all_.insert(all_.end(), group.begin(), group.end());
  }

  void for_each_cell(const sweep::EachCell& each) override {
    const Estimate estimate = estimated();
    std::int64_t index = 0;
    for (const auto& group : groups_) {
      std::vector<Cell> cells;
      Json ids = Json::array();
      for (const evaluation::AskedResult& asked : group) {
        cells.push_back(cell_of(asked));
        cells.back().index = index++;
        estimate.apply(cells.back());
        ids.push_back(cells.back().id);
      }
      const std::string batch = sweep::cell_digest(ids);
      for (Cell& cell : cells) {
        cell.batch = batch;
        each(cell);
      }
    }
  }

  void run(std::span<const Cell> batch, const sweep::JobWatch& watch) override {
    std::vector<evaluation::AskedResult> group;
    std::int64_t total = 0;
    for (const Cell& cell : batch) {
      if (cell.index >= std::ssize(all_) || cell_of(all_[cell.index]).id != cell.id)
        throw FileError("what is asked has changed since the study was planned; plan it again");
      group.push_back(all_[cell.index]);
      total += cell.tokens;
    }
    const auto done = [&](const evaluation::AskedResult& asked, const std::string& line) {
      const auto which = std::ranges::find_if(group, [&](const evaluation::AskedResult& one) {
        return one.example == asked.example && one.point == asked.point;
      });
      watch.done(batch[which - group.begin()], {line + "\n"});
    };
    evaluation::run_group(
        *model_, settings_, group, scorer_,
        {cancelling_.control, done, [&](std::int64_t tokens) { watch.progress(tokens, total); }});
  }

  void cancel() override { cancelling_.cancel(); }

 private:
  Cell cell_of(const evaluation::AskedResult& asked) const {
    const evaluation::GridPoint& point = *asked.point;
    Json about{{"task", settings_.task},
               {"example", asked.example->id},
               {"policy", point.policy},
               {"budget", point.budget_text},
               {"block", point.block}};
    about.update(asked.example->about);
    Cell cell;
    cell.id = eval_cell(settings_, asked);
    cell.tokens = evaluation::tokens_of(asked);
    cell.about = json_text(about);
    return cell;
  }

  Estimate estimated() const {
    capture::CaptureOptions options;
    options.prompt_ids = std::ranges::max_element(examples_, {}, [](const evaluation::Example& example) {
                           return example.prompt_ids.size();
                         })->prompt_ids;
    options.policies = {analysis::parse_policy("none")};
    options.block_size = settings_.blocks.front();
    options.record_keys = options.record_queries = false;
    return {*model_, options};
  }

  std::shared_ptr<const capture::Model> model_;
  evaluation::Settings settings_;
  Examples examples_;
  evaluation::Scorer scorer_;
  std::vector<evaluation::GridPoint> grid_;
  std::vector<std::vector<evaluation::AskedResult>> groups_;
  std::vector<evaluation::AskedResult> all_;  // of all groups, in the order of the cells
  Cancelling cancelling_;
};

// `validate`: a cell is a prompt under all policies, which are measured against its full cache.
class ValidateJob final : public sweep::Job {
 public:
  //   settings: with the model
  ValidateJob(std::shared_ptr<const capture::Model> model, validation::Settings settings,
              std::vector<results::Prompt> prompts)
      : model_(std::move(model)), settings_(std::move(settings)), prompts_(std::move(prompts)) {}

  void for_each_cell(const sweep::EachCell& each) override {
    if (prompts_.empty()) return;
    const auto& longest = *std::ranges::max_element(
        prompts_, {}, [](const results::Prompt& prompt) { return prompt.ids.size(); });
    const Estimate estimate(*model_, validation::prompt_capture_options(*model_, settings_, longest));
    std::int64_t index = 0;
    for (const results::Prompt& prompt : prompts_) {
      Cell cell;
      cell.id = validate_cell(settings_, prompt);
      cell.batch = cell.id;
      cell.index = index++;
      cell.tokens = validation::tokens_of(settings_, prompt);
      estimate.apply(cell);
      cell.about = json_text(Json{{"prompt", prompt.name},
                                  {"tokens", prompt.ids.size()},
                                  {"budget", settings_.budget.text()},
                                  {"block", settings_.block_size}});
      each(cell);
    }
  }

  void run(std::span<const Cell> batch, const sweep::JobWatch& watch) override {
    for (const Cell& cell : batch) {
      if (cell.index >= std::ssize(prompts_) || validate_cell(settings_, prompts_[cell.index]) != cell.id)
        throw FileError("the prompts have changed since the study was planned; plan it again");
      cancelling_.control.on_progress = [&](const capture::CaptureProgress& now) {
        watch.progress(now.tokens_done, now.tokens_total);
      };
      const auto record = validation::measure_prompt(*model_, settings_, prompts_[cell.index], {},
                                                     cancelling_.control, cancelling_.cancelled);
      watch.done(cell, {json_text(validation::prompt_record_json(record)) + "\n"});
    }
  }

  void cancel() override { cancelling_.cancel(); }

 private:
  std::shared_ptr<const capture::Model> model_;
  validation::Settings settings_;
  std::vector<results::Prompt> prompts_;
  Cancelling cancelling_;
};

// `report`: the cells of its parts, one part after another.
class ReportJob final : public sweep::Job {
 public:
  ReportJob(const ReportArguments& arguments, const std::shared_ptr<const capture::Model>& model,
            const sweep::PlannedModel& planned)
      : tasks_(arguments.tasks.options(arguments.seed), *model) {
    evaluation::Settings settings = report_settings(arguments);
    settings.model = identity_of(*model, planned);
    for (const adoption::Task& task : tasks_.tasks()) {
      settings.task = task.name;
      settings.task_settings = task.settings;
      parts_.push_back(std::make_unique<EvalJob>(model, settings, task.examples, task.scorer));
    }
    const auto prompts = adoption::choose_prompts(tasks_.tasks(), arguments.diagnosed);
    if (prompts.empty()) return;
    for (const evaluation::AskedBudget& budget : settings.budgets)
      parts_.push_back(
          std::make_unique<ValidateJob>(model, adoption::diagnosis_settings(settings, budget), prompts));
  }

  void for_each_cell(const sweep::EachCell& each) override {
    firsts_.clear();
    std::int64_t n = 0;
    for (const auto& part : parts_) {
      firsts_.push_back(n);
      part->for_each_cell([&](Cell cell) {
        cell.index += firsts_.back();
        each(cell);
        ++n;
      });
    }
  }

  void run(std::span<const Cell> batch, const sweep::JobWatch& watch) override {
    if (firsts_.empty()) for_each_cell([](const Cell&) {});
    const auto part = std::ranges::upper_bound(firsts_, batch.front().index) - firsts_.begin() - 1;
    std::vector<Cell> own(batch.begin(), batch.end());
    for (Cell& cell : own) cell.index -= firsts_[part];
    parts_[part]->run(own, watch);
  }

  void cancel() override {
    for (const auto& part : parts_) part->cancel();
  }

 private:
  adoption::TaskList tasks_;  // what scorers refer to
  std::vector<std::unique_ptr<sweep::Job>> parts_;
  std::vector<std::int64_t> firsts_;  // index of each part's first cell
};

// What a command was asked for that writes into a folder, which a cell does not.
template <typename Arguments>
Arguments parsed(void (*add_options)(CLI::App&, Arguments&), const Words& words, const std::string& what) {
  CLI::App app;
  Arguments arguments;
  add_options(app, arguments);
  app.get_option("--out")->required(false);
  parse_words(app, words, what);
  return arguments;
}

}  // namespace

std::unique_ptr<sweep::Job> make_eval_job(const std::string& task, Words words, const std::string& what,
                                          ModelShelf& shelf, const sweep::PlannedModel& planned) {
  CLI::App app;
  std::unique_ptr<sweep::Job> job;
  add_eval_tasks(app, [&](const EvalOptions& options, const EvalTask& asked) {
    auto model = shelf.get(options.model, options.model.options());
    model->folder_tokenizer().require("an evaluation needs one");
    evaluation::Settings settings = options.settings(asked.name, asked.settings);
    settings.model = identity_of(*model, planned);
    EvalExamples examples = asked.examples(*model);
    job = std::make_unique<EvalJob>(model, std::move(settings), std::move(examples.examples),
                                    std::move(examples.scorer));
  });
  words.insert(words.begin(), task);
  parse_words(app, std::move(words), what);
  return job;
}

std::unique_ptr<sweep::Job> make_validate_job(const Words& words, const std::string& what, ModelShelf& shelf,
                                              const sweep::PlannedModel& planned) {
  const ValidateArguments arguments = parsed(add_validate_options, words, what);
  auto model = shelf.get(arguments.model, validation_model_options(arguments));
  validation::Settings settings = validation_settings(arguments);
  settings.model = identity_of(*model, planned);
  auto prompts = results::read_prompts(arguments.prompts, model->config(), model->folder_tokenizer(),
                                       arguments.max_tokens);
  validation::check_lengths(settings, prompts, arguments.prompts);
  return std::make_unique<ValidateJob>(std::move(model), std::move(settings), std::move(prompts));
}

std::unique_ptr<sweep::Job> make_report_job(const Words& words, const std::string& what, ModelShelf& shelf,
                                            const sweep::PlannedModel& planned) {
  const ReportArguments arguments = parsed(add_report_options, words, what);
  return std::make_unique<ReportJob>(arguments, shelf.get(arguments.model, arguments.model.options()),
                                     planned);
}

}  // namespace keyscope::commands
