#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/sweep_jobs.hpp"
#include "app/results/prompts.hpp"
#include "app/results/run_identity.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::commands {

namespace {

using Json = nlohmann::ordered_json;
using sweep::Cell;

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

  void for_each_cell(const sweep::EachCell& each) override {
    const auto& longest = *std::ranges::max_element(
        prompts_, {}, [](const results::Prompt& prompt) { return prompt.ids.size(); });
    for (std::size_t point = 0; point < points_.size(); ++point) {
      const Estimate estimate(*model_, options_of(longest, points_[point]));
      for (std::size_t prompt = 0; prompt < prompts_.size(); ++prompt) {
        Cell cell = cell_of(prompts_[prompt], points_[point]);
        cell.index = static_cast<std::int64_t>(point * prompts_.size() + prompt);
        estimate.apply(cell);
        each(cell);
      }
    }
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

}  // namespace

std::unique_ptr<sweep::Job> make_capture_job(const sweep::StudyJob& job, const Words& more,
                                             const std::string& what, ModelShelf& shelf,
                                             const sweep::PlannedModel& planned) {
  return std::make_unique<CaptureJob>(job, what, more, shelf, planned);
}

}  // namespace keyscope::commands
