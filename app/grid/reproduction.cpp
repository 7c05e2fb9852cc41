#include "app/grid/reproduction.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "app/evaluation/task_report.hpp"
#include "app/grid/experiment_tasks.hpp"
#include "app/grid/grid_report.hpp"
#include "app/results/out_folder.hpp"
#include "base/errors.hpp"
#include "base/interval_text.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::grid {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kReproduce = "reproduce";  // of the settings, which for an evaluation name its task

// Why there is no such policy or budget; empty where there is.
std::string no_policy_because(const std::string& policy, const std::string& budget) {
  try {
    analysis::parse_policy(policy);
    if (policy != "none") analysis::parse_budget(budget);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

using PolicyAndBudget = std::pair<std::string, std::string>;

// Where the results of every method of a batch stand among all, in the order of examples.
using Places = std::map<PolicyAndBudget, std::vector<std::size_t>>;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// NaN where the example has none.
double value_of(const evaluation::ExampleResult& result, const std::string& score) {
  if (score != kGoneEverywhere) return result.score(score);
  return result.anatomy.evidence ? result.anatomy.evidence->gone_everywhere.value_or(kUnknown) : kUnknown;
}

std::string batch_folder(const std::string& task, std::int64_t block) {
  return fmt::format("{}-b{}", task, block);
}

}  // namespace

struct Reproduction::State {
  // Rows of one task and block, which are run together.
  struct Batch {
    const AskedTask* asked;
    evaluation::Settings settings;
    std::string folder;  // in OUT
  };

  Experiment experiment;
  ReproductionOptions options;
  const capture::Model& model;
  results::ModelIdentity identity;
  std::vector<AskedTask> tasks;
  std::vector<std::string> cannot_run;  // of every row
  std::vector<Batch> batches;
  evaluation::Evaluation all;

  const AskedTask& task_of(const ExperimentRow& row) const {
    return *std::ranges::find_if(tasks,
                                 [&](const AskedTask& task) { return task.described.name == row.task; });
  }
  std::string why_not(const ExperimentRow& row) const;
  void make_batches();
  Places measure(const Batch& batch, const fs::path& out, bool discard,
                 const evaluation::EvaluationWatch& watch);
  Json settings_json() const;
  std::vector<std::vector<double>> values_of(const ExperimentRow& row, const Places& places,
                                             const PolicyAndBudget& method) const;
  analysis::BootstrapMean found_points(const ExperimentRow& row, const Places& places) const;
  FoundRow found_row(std::size_t row, const std::map<std::string, Places>& places,
                     const std::string& settles_nothing) const;
};

std::string Reproduction::State::why_not(const ExperimentRow& row) const {
  std::string reason = task_of(row).cannot_run;
  if (reason.empty()) reason = no_policy_because(row.policy, row.budget);
  if (reason.empty() && !row.against_policy.empty())
    reason = no_policy_because(row.against_policy, row.against_budget);
  const AskedTask& asked = task_of(row);
  const std::string& score = row.score.empty() ? asked.described.score : row.score;
  if (reason.empty() && !score.empty() && score != kGoneEverywhere &&
      std::ranges::find(asked.scores, score) == asked.scores.end())
    reason = fmt::format("there is no score {}; of {} there are {}", shown(score), asked.described.kind,
                         fmt::join(asked.scores, ", "));
  if (reason.empty() && !row.part.empty() && std::ranges::find(asked.parts, row.part) == asked.parts.end())
    reason = fmt::format("there is no part {}{}", shown(row.part),
                         asked.left_out.empty() ? "" : ": " + asked.left_out);
  return reason;
}

void Reproduction::State::make_batches() {
  for (const AskedTask& asked : tasks) {
    std::set<std::int64_t> blocks;
    for (std::size_t i = 0; i < experiment.rows.size(); ++i)
      if (experiment.rows[i].task == asked.described.name && cannot_run[i].empty())
        blocks.insert(experiment.rows[i].block);
    for (const std::int64_t block : blocks) {
      std::vector<std::string> policies, budgets;
      const auto add = [](std::vector<std::string>& asked_for, const std::string& one) {
        if (!one.empty() && one != "none" && std::ranges::find(asked_for, one) == asked_for.end())
          asked_for.push_back(one);
      };
      for (std::size_t i = 0; i < experiment.rows.size(); ++i) {
        const ExperimentRow& row = experiment.rows[i];
        if (row.task != asked.described.name || row.block != block || !cannot_run[i].empty()) continue;
        add(policies, row.policy);
        add(policies, row.against_policy);
        add(budgets, row.budget);
        add(budgets, row.against_budget);
      }
      Batch& batch =
          batches.emplace_back(Batch{&asked, evaluation::asked_grid(policies, budgets, {block}, options.seed),
                                     batch_folder(asked.described.name, block)});
      batch.settings.model = identity;
      batch.settings.task = asked.described.kind;
      batch.settings.task_settings = asked.task.settings;
      batch.settings.task_settings["examples_sha256"] = evaluation::examples_sha256(asked.task.examples);
    }
  }
}

Places Reproduction::State::measure(const Batch& batch, const fs::path& out, bool discard,
                                    const evaluation::EvaluationWatch& watch) {
  std::optional<evaluation::ResultFolder> folder;
  if (!out.empty()) {
    folder.emplace(out / batch.folder, evaluation::settings_json(batch.settings), discard);
    folder->begin();
  }
  const adoption::Task& task = batch.asked->task;
  const auto report = [&](std::int64_t done, std::int64_t total, const std::string& label) {
    watch.on_progress(done, total, fmt::format("{}: {}", task.name, label));
  };
  auto found = evaluation::evaluate(model, batch.settings, task.examples, task.scorer,
                                    folder ? &*folder : nullptr, {watch.control, report});
  Places places;
  for (std::size_t i = 0; i < found.results.size(); ++i)
    places[{found.results[i].policy, found.results[i].budget_text}].push_back(all.results.size() + i);
  std::ranges::move(found.results, std::back_inserter(all.results));
  all.n_earlier += found.n_earlier;
  all.cost.tokens_asked += found.cost.tokens_asked;
  all.cost.tokens_run += found.cost.tokens_run;
  all.cost.seconds += found.cost.seconds;
  return places;
}

Json Reproduction::State::settings_json() const {
  Json json{{"format", 1}, {"task", kReproduce}, {"experiment", experiment.name}};
  results::add_identity(json, identity);
  json["length"] = options.length;
  json["samples"] = options.samples;
  json["seed"] = options.seed;
  json["batches"] = Json::object();
  for (const Batch& batch : batches)
    json["batches"][batch.folder] = batch.settings.task_settings["examples_sha256"];
  return json;
}

// Points of the examples that a row is about under one method, those of one data set together; several
// answers to one problem count as one example.
std::vector<std::vector<double>> Reproduction::State::values_of(const ExperimentRow& row,
                                                                const Places& places,
                                                                const PolicyAndBudget& method) const {
  const AskedTask& asked = task_of(row);
  const auto n_answers = static_cast<std::size_t>(asked.described.answers);
  const std::string& score = row.score.empty() ? asked.task.score : row.score;
  const auto mean = [&](const std::vector<std::size_t>& of, std::size_t first, const auto& value) {
    double sum = 0;
    for (std::size_t i = 0; i < n_answers; ++i) sum += value(all.results[of[first + i]]);
    return sum / static_cast<double>(n_answers);
  };
  const auto points = [&](const evaluation::ExampleResult& result) { return 100 * value_of(result, score); };
  const auto tokens = [](const evaluation::ExampleResult& result) {
    return static_cast<double>(result.n_prompt + result.n_generated);
  };
  const auto& own = places.at({row.policy, row.budget});
  const auto& full = places.at({"none", ""});
  std::map<std::string, std::vector<double>> sets;  // of examples of one data set
  for (std::size_t i = 0; i < own.size(); i += n_answers) {
    if (!row.part.empty() && asked.parts[i] != row.part) continue;
    if (row.over_budget && mean(full, i, tokens) <= static_cast<double>(all.results[own[i]].budget)) continue;
    const double value = mean(places.at(method), i, points);
    if (std::isnan(value)) continue;
    sets[asked.task.data_sets.empty() ? std::string() : asked.task.data_sets[i]].push_back(value);
  }
  std::vector<std::vector<double>> strata;
  for (auto& [name, of_set] : sets) strata.push_back(std::move(of_set));
  return strata;
}

// Of a row's method, or of its difference from another, or its share of it.
analysis::BootstrapMean Reproduction::State::found_points(const ExperimentRow& row,
                                                          const Places& places) const {
  const analysis::BootstrapOptions bootstrap{.seed = options.seed};
  auto own = values_of(row, places, {row.policy, row.budget});
  if (own.empty()) return {kUnknown, kUnknown, kUnknown, 0};
  if (row.against_policy.empty())
    return with_room(analysis::stratified_bootstrap_mean(own, bootstrap), false);
  const auto other = values_of(row, places, {row.against_policy, row.against_budget});
  if (row.share) {
    analysis::BootstrapMean found = analysis::stratified_bootstrap_ratio(own, other, bootstrap);
    for (double* part : {&found.mean, &found.low, &found.high}) *part *= 100;
    return found.mean <= 100 ? with_room(found, false) : found;
  }
  for (std::size_t set = 0; set < own.size(); ++set)
    std::ranges::transform(own[set], other[set], own[set].begin(), std::minus());
  return with_room(analysis::stratified_bootstrap_mean(own, bootstrap), true);
}

FoundRow Reproduction::State::found_row(std::size_t index, const std::map<std::string, Places>& places,
                                        const std::string& settles_nothing) const {
  const ExperimentRow& row = experiment.rows[index];
  FoundRow found{row, cannot_run[index], {kUnknown, kUnknown, kUnknown, 0}, {}};
  if (!found.cannot_run.empty()) {
    found.judgement.reason = "cannot run here: " + found.cannot_run;
    return found;
  }
  found.found = found_points(row, places.at(batch_folder(row.task, row.block)));
  if (found.found.n_samples == 0) {
    found.judgement.reason = "no example is of that kind here";
    return found;
  }
  const AskedTask& asked = task_of(row);
  std::string why_not = settles_nothing.empty() ? asked.differs : settles_nothing;
  if (why_not.empty() && row.part.empty()) why_not = asked.left_out;
  found.judgement = judge(row, found.found, experiment.tolerance_points, why_not);
  return found;
}

Reproduction::Reproduction(Experiment experiment, ReproductionOptions options, const capture::Model& model,
                           results::ModelIdentity identity)
    : state_(std::make_unique<State>(
          State{std::move(experiment), std::move(options), model, std::move(identity), {}, {}, {}, {}})) {
  for (const ExperimentTask& task : state_->experiment.tasks)
    state_->tasks.push_back(ask_task(task, state_->options, model));
  for (const ExperimentRow& row : state_->experiment.rows) state_->cannot_run.push_back(state_->why_not(row));
  state_->make_batches();
}

Reproduction::~Reproduction() = default;

std::vector<FoundRow> Reproduction::rows() const {
  std::vector<FoundRow> all;
  for (std::size_t i = 0; i < state_->experiment.rows.size(); ++i) {
    FoundRow& row = all.emplace_back();
    row.row = state_->experiment.rows[i];
    row.cannot_run = state_->cannot_run[i];
  }
  return all;
}

evaluation::Plan Reproduction::plan() const {
  evaluation::Plan all;
  for (const State::Batch& batch : state_->batches) {
    const auto plan = evaluation::plan_evaluation(batch.settings, batch.asked->task.examples, nullptr);
    all.n_results += plan.n_results;
    all.tokens_asked += plan.tokens_asked;
  }
  return all;
}

std::vector<fs::path> Reproduction::files(const fs::path& out) const {
  std::vector<fs::path> all{out / results::OutFolder::kSettings};
  for (const State::Batch& batch : state_->batches)
    std::ranges::move(evaluation::folder_files(out / batch.folder, batch.settings.task, true),
                      std::back_inserter(all));
  return all;
}

std::vector<FoundRow> Reproduction::run(const fs::path& out, bool discard,
                                        const evaluation::EvaluationWatch& watch) {
  std::optional<results::OutFolder> folder;  // which it holds until it has ended
  if (!out.empty()) {
    folder.emplace(out, state_->settings_json(), "reproduction", discard);
    folder->require_own([](const Json& task) { return task == kReproduce; });
    folder->begin();
    if (folder->discarded()) fs::remove(folder->file("results.json"));
    folder->write_settings();
  }
  std::map<std::string, Places> places;
  for (const State::Batch& batch : state_->batches)
    places[batch.folder] = state_->measure(batch, out, discard, watch);
  std::vector<FoundRow> all;
  const std::string settles_nothing = settles_nothing_because();
  for (std::size_t i = 0; i < state_->experiment.rows.size(); ++i)
    all.push_back(state_->found_row(i, places, settles_nothing));
  return all;
}

const evaluation::Evaluation& Reproduction::evaluated() const { return state_->all; }

const Experiment& Reproduction::experiment() const { return state_->experiment; }

std::string Reproduction::settles_nothing_because() const {
  if (!is_published(state_->experiment, state_->identity, state_->model.config()))
    return fmt::format("{} is not the published model", state_->identity.name);
  if (!state_->options.as_published()) return "other lengths or samples than the experiment's";
  return "";
}

namespace {

std::string published_text(const ExperimentRow& row) {
  if (!row.published()) return "–";
  if (!row.low) return fmt::format("at most {}", *row.high);
  if (!row.high) return fmt::format("at least {}", *row.low);
  return *row.low == *row.high ? fmt::format("{}", *row.low) : fmt::format("{} to {}", *row.low, *row.high);
}

// The mean and its interval, to the digits that both the interval and the published number take.
std::pair<std::string, std::string> found_texts(const FoundRow& row) {
  if (!std::isfinite(row.found.mean)) return {"–", "–"};
  int digits = interval_decimals(row.found.low, row.found.high, 1);
  for (const auto& end : {row.row.low, row.row.high})
    if (const std::string text = end ? fmt::format("{}", *end) : ""; text.find('.') != text.npos)
      digits = std::max(digits, static_cast<int>(text.size() - text.find('.') - 1));
  const std::string mean = format_signed(row.found.mean, digits);
  if (!std::isfinite(row.found.low)) return {mean, "–"};
  return {mean, fmt::format("[{}, {}]", format_signed(row.found.low, digits),
                            format_signed(row.found.high, digits))};
}

}  // namespace

std::string settling_command(const Experiment& experiment, const fs::path& file) {
  std::string command = fmt::format("keyscope reproduce {} --model {} --out {}", file.string(),
                                    experiment.models.front().repository, experiment.name);
  const auto asks = [&](std::string_view kind) {
    return std::ranges::find(experiment.tasks, kind, &ExperimentTask::kind) != experiment.tasks.end();
  };
  if (asks("longbench")) command += " --longbench LONGBENCH";
  if (asks("math500")) command += " --math500 MATH500.jsonl";
  if (asks("ruler") || asks("niah")) command += " --haystack ESSAYS";
  if (asks("ruler")) command += " --squad SQUAD.json --hotpotqa HOTPOTQA.json";
  return command;
}

std::string reproduction_table(const Experiment& experiment, const std::vector<FoundRow>& rows,
                               const std::string& command) {
  std::size_t wide = 4;
  for (const FoundRow& row : rows) wide = std::max(wide, row.row.what.size());
  std::string table = fmt::format("{}\n{}\n", experiment.claim, experiment.source);
  if (!experiment.notes.empty()) table += experiment.notes + "\n";
  table += fmt::format("\n  {:<{}}  {:>13}  {:>7}  {:<16}  {:>4}  {}\n", "row", wide, "published", "here",
                       "interval", "n", "verdict");
  std::vector<std::string> reasons;
  for (const FoundRow& row : rows) {
    const auto [here, interval] = found_texts(row);
    std::string verdict(verdict_name(row.judgement.verdict));
    if (const std::string& reason = row.judgement.reason; !reason.empty()) {
      auto at = std::ranges::find(reasons, reason);
      if (at == reasons.end()) at = reasons.insert(at, reason);
      verdict += fmt::format(" ({})", at - reasons.begin() + 1);
    }
    table += fmt::format("  {:<{}}  {:>13}  {:>7}  {:<16}  {:>4}  {}\n", row.row.what, wide,
                         published_text(row.row), here, interval, row.found.n_samples, verdict);
  }
  for (std::size_t i = 0; i < reasons.size(); ++i) table += fmt::format("({}) {}\n", i + 1, reasons[i]);
  return table +
         fmt::format("Points, with 95 % intervals over examples; tolerance {} points.\nSettled by: {}\n",
                     experiment.tolerance_points, command);
}

Json reproduction_json(const Reproduction& reproduction, const std::vector<FoundRow>& rows,
                       const std::string& command) {
  const Experiment& experiment = reproduction.experiment();
  Json json{{"format", 1},
            {"experiment", experiment.name},
            {"claim", experiment.claim},
            {"source", experiment.source},
            {"notes", experiment.notes},
            {"tolerance_points", experiment.tolerance_points},
            {"settles_nothing_because", reproduction.settles_nothing_because()},
            {"command", command}};
  json["rows"] = Json::array();
  for (const FoundRow& row : rows) {
    Json& one = json["rows"].emplace_back(Json{{"what", row.row.what},
                                               {"task", row.row.task},
                                               {"policy", row.row.policy},
                                               {"budget_text", row.row.budget},
                                               {"block", row.row.block},
                                               {"against_policy", row.row.against_policy},
                                               {"against_budget_text", row.row.against_budget},
                                               {"share", row.row.share},
                                               {"score", row.row.score},
                                               {"part", row.row.part},
                                               {"over_budget", row.row.over_budget}});
    one["published"] = {json_number(row.row.low), json_number(row.row.high)};
    one["n"] = row.found.n_samples;
    evaluation::add_score(one, "points", {row.found.mean, row.found.low, row.found.high});
    one["verdict"] = verdict_name(row.judgement.verdict);
    one["reason"] = row.judgement.reason;
  }
  return json;
}

}  // namespace keyscope::grid
