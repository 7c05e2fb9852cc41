#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/console.hpp"
#include "app/commands/eval.hpp"
#include "app/commands/options.hpp"
#include "app/commands/sweep.hpp"
#include "app/commands/validate.hpp"
#include "app/evaluation/evaluation.hpp"
#include "app/results/prompts.hpp"
#include "app/results/run_identity.hpp"
#include "app/sweep/study_plan.hpp"
#include "app/validation/validation.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/inference/capture.hpp"
#include "capture/model/model_cache.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::commands {

namespace {

using Json = nlohmann::ordered_json;
using sweep::Cell;

// Reads a job's options as its command does.
//   throws UsageError naming job and option
void parse_words(CLI::App& command, std::vector<std::string> words, const std::string& what) {
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    command.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}: {}", what, error.what()));
  }
}

// The model that was asked for last.
class ModelShelf {
 public:
  std::shared_ptr<const capture::Model> get(const ModelChoice& choice, const capture::ModelOptions& options) {
    const auto key = fmt::format("{} {} {} {} {} {}", static_cast<int>(options.dtype), options.device,
                                 options.threads, options.may_stream, options.expand_keys, choice.name());
    if (key == key_) return model_;
    key_.clear();
    model_.reset();  // two would not fit
    model_ = choice.load(options);
    key_ = key;
    return model_;
  }

 private:
  std::string key_;
  std::shared_ptr<const capture::Model> model_;
};

// Which model computes, without reading all its weights again.
//   throws FileError where the model's files have changed since they were planned
results::ModelIdentity identity_of(const capture::Model& model, const sweep::PlannedModel& planned) {
  if (model.model_sha256() != planned.sha256)
    throw FileError(fmt::format(
        "{}: the model's files are others than those that were planned; plan the study again", planned.name));
  return {capture::model_name(model.folder()), planned.sha256, planned.weights_sha256, model.dtype_name(),
          model.device_name()};
}

// What a run over a prompt is expected to take, scaled from the longest of its kind.
class Estimate {
 public:
  Estimate(const capture::Model& model, const capture::CaptureOptions& options) {
    const auto estimate = capture::estimate_capture(model, capture::plan_capture(model, options));
    seconds_per_token_ =
        estimate.seconds / static_cast<double>(options.prompt_ids.size() * options.policies.size());
    memory_bytes_ = estimate.weight_bytes + estimate.cache_bytes;
  }

  void apply(Cell& cell) const {
    cell.seconds = seconds_per_token_ * static_cast<double>(cell.tokens);
    cell.memory_bytes = memory_bytes_;
  }

 private:
  double seconds_per_token_ = 0;
  std::int64_t memory_bytes_ = 0;
};

// Whether the work was cancelled, by any of the ways in which a job's parts ask.
class Cancelling {
 public:
  capture::CaptureControl control;
  std::atomic<bool> cancelled = false;

  void cancel() {
    cancelled = true;
    control.cancel();
  }
};

// `eval TASK`: a cell is an example under a grid point, a batch what is run together.
class EvalJob final : public sweep::Job {
 public:
  EvalJob(const EvalOptions& options, const EvalTask& task, std::shared_ptr<const capture::Model> model,
          const sweep::PlannedModel& planned)
      : model_(std::move(model)),
        settings_(options.settings(task.name, task.settings)),
        asked_(task.examples(*model_)) {
    evaluation::check_examples(asked_.examples, *model_);
    settings_.model = identity_of(*model_, planned);
    grid_ = evaluation::grid_of(settings_);
    groups_ = evaluation::asked_groups(asked_.examples, grid_);
    for (const auto& group : groups_) all_.insert(all_.end(), group.begin(), group.end());
  }

  std::vector<Cell> cells() override {
    const Estimate estimate = estimated();
    std::vector<Cell> cells;
    for (const auto& group : groups_) {
      const std::size_t first = cells.size();
      Json ids = Json::array();
      for (const evaluation::AskedResult& asked : group) {
        cells.push_back(cell_of(asked));
        cells.back().index = std::ssize(cells) - 1;
        estimate.apply(cells.back());
        ids.push_back(cells.back().id);
      }
      const std::string batch = sweep::cell_digest(ids);
      for (std::size_t i = first; i < cells.size(); ++i) cells[i].batch = batch;
    }
    return cells;
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
        *model_, settings_, group, asked_.scorer,
        {cancelling_.control, done, [&](std::int64_t tokens) { watch.progress(tokens, total); }});
  }

  void cancel() override { cancelling_.cancel(); }

 private:
  // What one result depends on is what an evaluation of it alone would.
  Cell cell_of(const evaluation::AskedResult& asked) const {
    const evaluation::GridPoint& point = *asked.point;
    evaluation::Settings settings = settings_;
    settings.policies.clear();
    settings.budgets.clear();
    settings.blocks = {point.block};
    if (point.evicts()) {
      settings.policies = {{point.policy, point.spec}};
      settings.budgets = {{point.budget_text, point.budget}};
    }
    settings.task_settings["examples_sha256"] = evaluation::examples_sha256({asked.example, 1});
    Json about{{"example", asked.example->id},
               {"policy", point.policy},
               {"budget", point.budget_text},
               {"block", point.block}};
    about.update(asked.example->about);
    Cell cell;
    cell.id = sweep::cell_digest({{"command", "eval"}, {"settings", evaluation::settings_json(settings)}});
    cell.tokens = evaluation::tokens_of(asked);
    cell.about = json_text(about);
    return cell;
  }

  Estimate estimated() const {
    capture::CaptureOptions options;
    options.prompt_ids =
        std::ranges::max_element(asked_.examples, {}, [](const evaluation::Example& example) {
          return example.prompt_ids.size();
        })->prompt_ids;
    options.policies = {analysis::parse_policy("none")};
    options.block_size = settings_.blocks.front();
    options.record_keys = options.record_queries = false;
    return {*model_, options};
  }

  std::shared_ptr<const capture::Model> model_;
  evaluation::Settings settings_;
  EvalExamples asked_;
  std::vector<evaluation::GridPoint> grid_;
  std::vector<std::vector<evaluation::AskedResult>> groups_;
  std::vector<evaluation::AskedResult> all_;  // of all groups, in the order of the cells
  Cancelling cancelling_;
};

// `validate`: a cell is a prompt under all policies, which are measured against its full cache.
class ValidateJob final : public sweep::Job {
 public:
  ValidateJob(const ValidateArguments& arguments, std::shared_ptr<const capture::Model> model,
              const sweep::PlannedModel& planned)
      : model_(std::move(model)),
        settings_(validation_settings(arguments)),
        prompts_(results::read_prompts(arguments.prompts, model_->config(), model_->folder_tokenizer(),
                                       arguments.max_tokens)) {
    settings_.model = identity_of(*model_, planned);
    validation::check_lengths(settings_, prompts_, arguments.prompts);
    json_ = validation::settings_json(settings_);
  }

  std::vector<Cell> cells() override {
    if (prompts_.empty()) return {};
    const auto& longest = *std::ranges::max_element(
        prompts_, {}, [](const results::Prompt& prompt) { return prompt.ids.size(); });
    const Estimate estimate(*model_, validation::prompt_capture_options(*model_, settings_, longest));
    std::vector<Cell> cells;
    for (const results::Prompt& prompt : prompts_) {
      Cell cell;
      cell.id = id_of(prompt);
      cell.batch = cell.id;
      cell.index = std::ssize(cells);
      cell.tokens = validation::tokens_of(settings_, prompt);
      estimate.apply(cell);
      cell.about = json_text(Json{{"prompt", prompt.name},
                                  {"tokens", prompt.ids.size()},
                                  {"budget", settings_.budget.text()},
                                  {"block", settings_.block_size}});
      cells.push_back(std::move(cell));
    }
    return cells;
  }

  void run(std::span<const Cell> batch, const sweep::JobWatch& watch) override {
    for (const Cell& cell : batch) {
      if (cell.index >= std::ssize(prompts_) || id_of(prompts_[cell.index]) != cell.id)
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
  std::string id_of(const results::Prompt& prompt) const {
    return sweep::cell_digest({{"command", "validate"}, {"key", validation::prompt_key(json_, prompt.ids)}});
  }

  std::shared_ptr<const capture::Model> model_;
  validation::Settings settings_;
  std::vector<results::Prompt> prompts_;
  Json json_;
  Cancelling cancelling_;
};

// A policy and a budget of its own, as `capture` runs them.
struct CapturePoint {
  analysis::PolicySpec policy;
  std::string policy_text, budget_text;  // as asked for; no budget of `none`
  std::int64_t block = 0;
};

// The values of an option of a job, which may be one or a list; none where it is not given.
std::vector<Json> values_of(const Json& options, const char* name) {
  const auto found = options.find(name);
  if (found == options.end()) return {};
  return found->is_array() ? found->get<std::vector<Json>>() : std::vector<Json>{*found};
}

std::vector<std::string> texts_of(const Json& options, const char* name) {
  std::vector<std::string> texts;
  for (const Json& value : values_of(options, name))
    texts.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  return texts;
}

using Words = std::vector<std::string>;

// `capture` over a file of prompts, or one prompt: a cell is a recording of one run, for every prompt,
// policy, budget and block size.
class CaptureJob final : public sweep::Job {
 public:
  CaptureJob(const sweep::StudyJob& job, const std::string& what, const Words& more, ModelShelf& shelf,
             const sweep::PlannedModel& planned)
      : options_json_(job.options), words_(words_of_one(job)) {
    words_.insert(words_.end(), more.begin(), more.end());
    CLI::App app;
    CaptureCommandOptions asked;
    asked.add_to(app, true, true);
    parse_words(app, words_, what);
    options_ = asked.capture_options();
    model_ = shelf.get(asked.model(), asked.model_options());
    identity_ = identity_of(*model_, planned);
    if (!asked.budget_file().empty())
      options_.budgets = read_budget_file(asked.budget_file(), model_->config());
    read_prompts(job.options, asked, what);
    add_points(what);
  }

  std::vector<Cell> cells() override {
    std::vector<Cell> cells;
    const auto& longest = *std::ranges::max_element(
        prompts_, {}, [](const results::Prompt& prompt) { return prompt.ids.size(); });
    for (std::size_t point = 0; point < points_.size(); ++point) {
      const Estimate estimate(*model_, options_of(longest, points_[point]));
      for (std::size_t prompt = 0; prompt < prompts_.size(); ++prompt) {
        Cell cell = cell_of(prompts_[prompt], points_[point]);
        cell.index = static_cast<std::int64_t>(point * prompts_.size() + prompt);
        estimate.apply(cell);
        cells.push_back(std::move(cell));
      }
    }
    return cells;
  }

  void run(std::span<const Cell> batch, const sweep::JobWatch& watch) override {
    for (const Cell& cell : batch) {
      const auto prompt = cell.index % std::ssize(prompts_), point = cell.index / std::ssize(prompts_);
      if (point >= std::ssize(points_) || cell_of(prompts_[prompt], points_[point]).id != cell.id)
        throw FileError("the prompts have changed since the study was planned; plan it again");
      const capture::CaptureOptions options = options_of(prompts_[prompt], points_[point]);
      cancelling_.control.on_progress = [&](const capture::CaptureProgress& now) {
        watch.progress(now.tokens_done, now.tokens_total);
      };
      const auto out = watch.recording(cell);
      const auto writer = recording::make_recording_writer(out, true);
      std::array<recording::RecordSink*, 1> sinks{writer.get()};
      const auto outcome = capture::run_capture(*model_, options, sinks, cancelling_.control).front();
      const Json line = {{"generated", outcome.generated}, {"peak_cache_rows", outcome.peak_cache_rows}};
      watch.done(cell, {json_text(line) + "\n", out});
    }
  }

  void cancel() override {
    cancelling_.cancel();
    cancel_policies(options_.policies);
  }

 private:
  void read_prompts(const Json& json, const CaptureCommandOptions& asked, const std::string& what) {
    const auto files = texts_of(json, "prompts");
    if (files.size() > 1) throw UsageError(what + ": \"prompts\" names one file");
    if (!files.empty()) {
      if (asked.prompt.given())
        throw UsageError(what + ": \"prompts\" stands for every other way to give a prompt");
      prompts_ = results::read_prompts(files.front(), model_->config(), model_->folder_tokenizer(),
                                       asked.prompt.max_tokens());
      if (prompts_.empty())
        throw UsageError(fmt::format("{}: {}: there are no prompts", what, files.front()));
      return;
    }
    if (!asked.prompt.given())
      throw UsageError(what +
                       ": no prompt: give \"prompts\", a file with a JSON object a line, or \"prompt-file\"");
    prompts_.push_back({.name = "prompt",
                        .ids = asked.prompt.read(model_->folder_tokenizer(), model_->folder()),
                        .beginning = ""});
  }

  // `capture` takes one prompt, one budget and one block size.
  static Words words_of_one(const sweep::StudyJob& job) {
    sweep::StudyJob one = job;
    for (const char* axis : {"prompts", "budget", "block"}) one.options.erase(axis);
    const auto budgets = texts_of(job.options, "budget");
    if (!budgets.empty()) one.options["budget"] = budgets.front();
    return one.words();
  }

  void add_points(const std::string& what) {
    std::vector<std::int64_t> sizes;
    for (const nlohmann::json block : values_of(options_json_, "block"))
      sizes.push_back(JsonField(block, what, "block").integer(1, std::int64_t{1} << 40));
    if (sizes.empty()) sizes.push_back(options_.block_size);
    const auto budgets = texts_of(options_json_, "budget"), policies = texts_of(options_json_, "policy");
    for (const std::int64_t block : sizes)
      for (std::size_t i = 0; i < options_.policies.size(); ++i) {
        const analysis::PolicySpec& policy = options_.policies[i];
        const std::string text = policies.size() == options_.policies.size() ? policies[i] : policy.name;
        if (policy.name == "none") {
          points_.push_back({policy, text, "", block});
          continue;
        }
        if (budgets.empty()) throw UsageError(fmt::format("{}: policy {} needs a budget", what, text));
        for (const std::string& budget : budgets) points_.push_back({policy, text, budget, block});
      }
  }

  capture::CaptureOptions options_of(const results::Prompt& prompt, const CapturePoint& point) const {
    capture::CaptureOptions options = options_;
    options.prompt_ids = prompt.ids;
    options.policies = {point.policy};
    if (!point.budget_text.empty()) options.budget = analysis::parse_budget(point.budget_text);
    options.block_size = point.block;
    options.model_sha256 = identity_.sha256;
    std::vector<std::string> words{"keyscope", "capture"};
    words.insert(words.end(), words_.begin(), words_.end());
    options.command = quote_words(words);
    return options;
  }

  Cell cell_of(const results::Prompt& prompt, const CapturePoint& point) const {
    // What the prompt's ids and the other members say already, and what changes no result.
    Json others = options_json_;
    for (const char* name : {"prompts", "prompt", "prompt-file", "prompt-ids", "messages", "chat", "system",
                             "max-tokens", "policy", "budget", "block", "threads"})
      others.erase(name);
    Json depends{{"command", "capture"}};
    results::add_identity(depends, identity_);
    depends["seed"] = options_.seed;
    depends["options"] = std::move(others);
    depends["ids"] = prompt.ids;
    Cell cell;
    cell.joint = sweep::cell_digest(depends);
    // A policy of the user's own says in its options what its file holds.
    depends["policy"] = point.policy.own
                            ? Json{{"name", point.policy.name}, {"options", point.policy.options}}
                            : results::policy_json(point.policy, options_.seed);
    depends["budget"] =
        point.budget_text.empty() ? Json() : Json(analysis::parse_budget(point.budget_text).text());
    depends["budgets"] = options_.budgets;
    depends["block"] = point.block;
    cell.id = sweep::cell_digest(depends);
    cell.batch = cell.id;
    cell.tokens = std::ssize(prompt.ids) + std::max<std::int64_t>(0, options_.generate - 1);
    cell.about = json_text(Json{{"prompt", prompt.name},
                                {"policy", point.policy_text},
                                {"budget", point.budget_text},
                                {"block", point.block}});
    return cell;
  }

  Json options_json_;
  Words words_;
  capture::CaptureOptions options_;
  std::shared_ptr<const capture::Model> model_;
  results::ModelIdentity identity_;
  std::vector<results::Prompt> prompts_;
  std::vector<CapturePoint> points_;
  Cancelling cancelling_;
};

class CommandJobs final : public sweep::JobMaker {
 public:
  CommandJobs(int threads, bool quiet) : threads_(threads), quiet_(quiet) {}

  sweep::PlannedModel planned_model(const std::string& name) override {
    CLI::App app;
    ModelChoice choice;
    choice.add_model(app);
    choice.add_arithmetic(app);
    parse_words(app, {"--model=" + name}, "model " + name);
    capture::ModelOptions options = choice.options();
    options.may_stream = true;
    const auto model = shelf_.get(choice, options);
    return {name, model->model_sha256(), capture::sha256_with_weights(*model, hash_progress_line(quiet_))};
  }

  std::unique_ptr<sweep::Job> make(const sweep::Study& study, int job_index, const sweep::PlannedModel& model,
                                   int seed) override {
    const sweep::StudyJob& job = study.jobs[job_index];
    const std::string what = fmt::format("job {} ({})", job_index + 1, job.command);
    Words more{"--model=" + model.name, fmt::format("--seed={}", study.seeds[seed])};
    if (threads_ > 0 && !job.options.contains("threads"))
      more.push_back(fmt::format("--threads={}", threads_));
    if (job.command == "capture") return std::make_unique<CaptureJob>(job, what, more, shelf_, model);
    Words words = job.words();
    words.insert(words.end(), more.begin(), more.end());
    if (job.command == "validate") return validate_job(words, what, model);
    if (job.command.starts_with("eval "))
      return eval_job(job.command.substr(5), std::move(words), what, model);
    throw UsageError(fmt::format("{}: expected capture, validate or eval TASK", what));
  }

 private:
  std::unique_ptr<sweep::Job> validate_job(const std::vector<std::string>& words, const std::string& what,
                                           const sweep::PlannedModel& planned) {
    CLI::App app;
    ValidateArguments arguments;
    add_validate_options(app, arguments);
    app.get_option("--out")->required(false);
    parse_words(app, words, what);
    return std::make_unique<ValidateJob>(
        arguments, shelf_.get(arguments.model, validation_model_options(arguments)), planned);
  }

  std::unique_ptr<sweep::Job> eval_job(const std::string& task, std::vector<std::string> words,
                                       const std::string& what, const sweep::PlannedModel& planned) {
    CLI::App app;
    std::unique_ptr<sweep::Job> job;
    add_eval_tasks(app, [&](const EvalOptions& options, const EvalTask& asked) {
      auto model = shelf_.get(options.model, options.model.options());
      model->folder_tokenizer().require("an evaluation needs one");
      job = std::make_unique<EvalJob>(options, asked, std::move(model), planned);
    });
    words.insert(words.begin(), task);
    parse_words(app, std::move(words), what);
    return job;
  }

  int threads_;
  bool quiet_;
  ModelShelf shelf_;
};

}  // namespace

std::unique_ptr<sweep::JobMaker> make_job_maker(int threads, bool quiet) {
  return std::make_unique<CommandJobs>(threads, quiet);
}

}  // namespace keyscope::commands
