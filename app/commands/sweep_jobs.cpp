#include "app/commands/sweep_jobs.hpp"

#include <algorithm>
#include <utility>

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <fmt/format.h>

#include "app/commands/console.hpp"
#include "app/commands/sweep.hpp"
#include "base/errors.hpp"
#include "capture/model/model_cache.hpp"

namespace keyscope::commands {

void parse_words(CLI::App& command, Words words, const std::string& what) {
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    command.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}: {}", what, error.what()));
  }
}

std::shared_ptr<const capture::Model> ModelShelf::get(const ModelChoice& choice,
                                                      const capture::ModelOptions& options) {
  const auto key = fmt::format("{} {} {} {} {} {}", static_cast<int>(options.dtype), options.device,
                               options.threads, options.may_stream, options.expand_keys, choice.name());
  if (key == key_) return model_;
  key_.clear();
  model_.reset();  // two would not fit
  model_ = choice.load(options);
  key_ = key;
  return model_;
}

results::ModelIdentity identity_of(const capture::Model& model, const sweep::PlannedModel& planned) {
  if (model.model_sha256() != planned.sha256)
    throw FileError(fmt::format(
        "{}: the model's files are others than those that were planned; plan the study again", planned.name));
  return {capture::model_name(model.folder()), planned.sha256, planned.weights_sha256, model.dtype_name(),
          model.device_name()};
}

Estimate::Estimate(const capture::Model& model, const capture::CaptureOptions& options) {
  const auto estimate = capture::estimate_capture(model, capture::plan_capture(model, options));
  seconds_per_token_ =
      estimate.seconds / static_cast<double>(options.prompt_ids.size() * options.policies.size());
  memory_bytes_ = estimate.weight_bytes + estimate.cache_bytes;
}

void Estimate::apply(sweep::Cell& cell) const {
  cell.seconds = seconds_per_token_ * static_cast<double>(cell.tokens);
  cell.memory_bytes = memory_bytes_;
}

namespace {

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
    if (job.command == "capture") return make_capture_job(job, more, what, shelf_, model);
    Words words = job.words();
    words.insert(words.end(), more.begin(), more.end());
    if (job.command == "validate") return make_validate_job(words, what, shelf_, model);
    if (job.command == "report") return make_report_job(words, what, shelf_, model);
    if (job.command.starts_with("eval "))
      return make_eval_job(job.command.substr(5), std::move(words), what, shelf_, model);
    throw UsageError(fmt::format("{}: expected capture, report, validate or eval TASK", what));
  }

 private:
  int threads_;
  bool quiet_;
  ModelShelf shelf_;
};

}  // namespace

std::unique_ptr<sweep::JobMaker> make_job_maker(int threads, bool quiet) {
  return std::make_unique<CommandJobs>(threads, quiet);
}

}  // namespace keyscope::commands
