#include "app/adoption/measurement.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "analysis/policies/registry.hpp"
#include "app/adoption/adoption_report.hpp"
#include "app/benchmarks/benchmark.hpp"
#include "app/validation/prompt_record.hpp"
#include "app/validation/validation.hpp"
#include "base/errors.hpp"
#include "capture/model/memory.hpp"

namespace keyscope::adoption {

namespace {

namespace fs = std::filesystem;

// Works on one report, stage by stage.
class Measurement {
 public:
  Measurement(const capture::Model& model, const evaluation::Settings& settings, std::span<const Task> tasks,
              const MeasurementOptions& options, fs::path out, const MeasurementWatch& watch)
      : model_(model),
        settings_(settings),
        tasks_(tasks),
        options_(options),
        out_(std::move(out)),
        watch_(watch) {
    for (const evaluation::GridPoint& point : evaluation::grid_of(settings))
      if (point.evicts()) points_.push_back(point);
  }

  Adoption run() {
    describe();
    for (const Task& task : tasks_) ask(task);
    count_memory();
    if (options_.latency_repeat > 0) time_first_token();
    if (!options_.diagnosed.empty()) diagnose();
    adoption_.recommendation = recommend(adoption_.candidates, adoption_.rule);
    return std::move(adoption_);
  }

 private:
  void describe() {
    adoption_.model = settings_.model;
    adoption_.block_size = settings_.blocks.front();
    adoption_.seed = adoption_.bootstrap.seed = settings_.seed;
    adoption_.rule = {options_.tolerance, adoption_.bootstrap.confidence};
    for (const evaluation::GridPoint& point : points_)
      adoption_.candidates.push_back({point.policy, point.budget_text, 1, {}, {}});
    for (const Task& task : tasks_)
      for (const evaluation::Example& example : task.examples)
        adoption_.prompt_lengths.push_back(std::ssize(example.prompt_ids));
  }

  void ask(const Task& task) {
    evaluation::Settings settings = settings_;
    settings.task = task.name;
    settings.task_settings = task.settings;
    auto json = evaluation::settings_json(settings);
    json["examples_sha256"] = evaluation::examples_sha256(task.examples);
    evaluation::ResultFolder folder(out_ / task.name, json, options_.discard);
    folder.begin();
    if (options_.find_line) folder.adopt(settings, task.examples, options_.find_line);
    const evaluation::EvaluationWatch watch{watch_.monitor.control, progress_of(task.name)};
    const auto evaluation =
        evaluation::evaluate(model_, settings, task.examples, task.scorer, &folder, watch);
    TaskResult found = task_result(task, evaluation.results, points_.size(), adoption_.bootstrap);
    adoption_.tasks.push_back(std::move(found.outcome));
    for (std::size_t i = 0; i < points_.size(); ++i)
      adoption_.candidates[i].losses.push_back(std::move(found.losses[i]));
  }

  void count_memory() {
    const auto& config = model_.config();
    const std::int64_t element = model_.element_bytes();
    const auto block = settings_.blocks.front();
    adoption_.full_memory = cache_memory(config, element, adoption_.prompt_lengths, nullptr, block);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      adoption_.memory.push_back(
          cache_memory(config, element, adoption_.prompt_lengths, &points_[i].budget, block));
      adoption_.candidates[i].memory_share =
          adoption_.memory[i].mean_bytes / adoption_.full_memory.mean_bytes;
      adoption_.candidates[i].p95_memory_share = static_cast<double>(adoption_.memory[i].p95_bytes) /
                                                 static_cast<double>(adoption_.full_memory.p95_bytes);
    }
  }

  // The beginning of the shortest prompt that has so many tokens, which one of them has.
  std::vector<std::int32_t> prompt_of(std::int64_t n_tokens) const {
    const std::vector<std::int32_t>* best = &tasks_.front().examples.front().prompt_ids;
    for (const Task& task : tasks_)
      for (const evaluation::Example& example : task.examples) {
        const auto& ids = example.prompt_ids;
        if (std::ssize(ids) >= n_tokens && (std::ssize(*best) < n_tokens || ids.size() < best->size()))
          best = &ids;
      }
    return {best->begin(), best->begin() + n_tokens};
  }

  void time_first_token() {
    const std::int64_t n_tokens = adoption_.full_memory.p95_length;
    benchmarks::Sweep sweep;
    sweep.policies.emplace_back("none");
    for (const auto& policy : settings_.policies) sweep.policies.push_back(policy.text);
    for (const auto& budget : settings_.budgets) {
      const std::int64_t rows = budget.budget.rows_for(n_tokens);
      if (std::ranges::find(sweep.budgets, rows, &analysis::Budget::rows) == sweep.budgets.end())
        sweep.budgets.emplace_back(rows);
    }
    sweep.blocks = {settings_.blocks.front()};
    sweep.n_tokens = {n_tokens};
    sweep.schedules = {capture::Schedule::kBlock};
    sweep.repeat = options_.latency_repeat;
    sweep.seed = settings_.seed;
    take_times(benchmarks::measure_prefill(model_, sweep, prompt_of(n_tokens), watch_.monitor));
  }

  void take_times(const benchmarks::Benchmark& measured) {
    const std::int64_t n_tokens = adoption_.full_memory.p95_length;
    const auto row_of = [&](const std::string& policy, std::optional<std::int64_t> budget) {
      return std::ranges::find_if(measured.rows, [&](const benchmarks::Row& row) {
        return row.policy == policy && row.budget == budget;
      });
    };
    adoption_.latency_repeat = options_.latency_repeat;
    adoption_.latency_load = measured.load;
    adoption_.full_first_token_ms = *row_of("none", std::nullopt)->ttft_ms;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const auto row = row_of(points_[i].policy, points_[i].budget.rows_for(n_tokens));
      adoption_.first_token_ms.push_back(*row->ttft_ms);
      adoption_.candidates[i].first_token_ms = row->ttft_rounds;
      adoption_.candidates[i].first_token_ratio = row->ttft_ratio;
    }
  }

  void diagnose() {
    std::vector<BudgetRecords> all;
    for (const auto& budget : settings_.budgets) {
      BudgetRecords& records = all.emplace_back();
      records.budget = budget.text;
      for (const auto& policy : settings_.policies) records.policies.push_back(policy.text);
      const validation::Settings settings = diagnosis_settings(settings_, budget);
      validation::ResultFolder folder(out_ / geometry_folder(budget.text),
                                      validation::settings_json(settings), options_.discard);
      folder.begin();
      if (options_.find_record)
        validation::adopt_records(settings, options_.diagnosed, options_.find_record, folder);
      records.records = validation::measure_prompts(
          model_, settings, options_.diagnosed, folder, false,
          {watch_.monitor.control, watch_.cancelled, progress_of("keys and attention at " + budget.text)});
    }
    add_diagnosis(adoption_, all);
  }

  std::function<void(std::int64_t, std::int64_t, const std::string&)> progress_of(
      const std::string& stage) const {
    return [this, stage](std::int64_t done, std::int64_t total, const std::string& label) {
      watch_.monitor.report(done, total, label.empty() ? stage : fmt::format("{}: {}", stage, label));
    };
  }

  const capture::Model& model_;
  const evaluation::Settings& settings_;
  std::span<const Task> tasks_;
  const MeasurementOptions& options_;
  fs::path out_;
  const MeasurementWatch& watch_;
  std::vector<evaluation::GridPoint> points_;
  Adoption adoption_;
};

}  // namespace

validation::Settings diagnosis_settings(const evaluation::Settings& asked,
                                        const evaluation::AskedBudget& budget) {
  validation::Settings settings;
  settings.policies.push_back(analysis::parse_policy("none"));
  for (const auto& policy : asked.policies) settings.policies.push_back(policy.spec);
  settings.budget = budget.budget;
  settings.block_size = asked.blocks.front();
  settings.seed = asked.seed;
  settings.model = asked.model;
  return settings;
}

void check_diagnosis_memory(const capture::Model& model, const evaluation::Settings& settings,
                            std::span<const results::Prompt> diagnosed) {
  const auto where = [](const results::Prompt& prompt) { return prompt.name; };
  for (const auto& budget : settings.budgets)
    validation::check_memory(model, diagnosis_settings(settings, budget), diagnosed,
                             {where, "--diagnose 0, --diagnose-length"}, capture::available_memory());
}

Adoption measure_adoption(const capture::Model& model, const evaluation::Settings& settings,
                          std::span<const Task> tasks, const MeasurementOptions& options,
                          const std::filesystem::path& out, const MeasurementWatch& watch) {
  return Measurement(model, settings, tasks, options, out, watch).run();
}

namespace {

using analysis::BootstrapMean;

class Means {
 public:
  Means(std::span<const validation::PromptRecord> records, const analysis::BootstrapOptions& options)
      : records_(records), options_(options) {}

  // Over prompts, of the mean over heads.
  BootstrapMean of(std::string_view quantity, const std::string& run) const {
    return analysis::bootstrap_mean(validation::samples_of(records_, validation::quantity(quantity), run),
                                    options_);
  }

  Retained retained(const std::string& run, bool evicts) const {
    Retained found{of("mean_pairwise_cosine", run), of("log_volume_nats", run), {}, {}, {}};
    if (evicts) {
      found.cosine_change = analysis::bootstrap_mean(
          validation::differences_of(records_, validation::quantity("mean_pairwise_cosine"), run, "none"),
          options_);
      found.attention_mass_kept = of("attention_mass_kept", run);
      found.kl_nats = of("kl_nats", run);
    }
    return found;
  }

 private:
  std::span<const validation::PromptRecord> records_;
  const analysis::BootstrapOptions& options_;
};

std::vector<const evaluation::Example*> short_examples(const Task& task, std::int64_t max_tokens) {
  std::vector<const evaluation::Example*> found;
  for (const evaluation::Example& example : task.examples)
    if (max_tokens == 0 || std::ssize(example.prompt_ids) <= max_tokens) found.push_back(&example);
  return found;
}

std::int64_t fewest_tokens(std::span<const Task> tasks) {
  auto fewest = std::numeric_limits<std::int64_t>::max();
  for (const Task& task : tasks)
    for (const evaluation::Example& example : task.examples)
      fewest = std::min(fewest, std::int64_t{std::ssize(example.prompt_ids)});
  return fewest;
}

}  // namespace

std::vector<results::Prompt> choose_prompts(std::span<const Task> tasks, const PromptChoice& choice) {
  std::vector<results::Prompt> chosen;
  std::set<std::vector<std::int32_t>> seen;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const auto examples = short_examples(tasks[t], choice.max_tokens);
    // Of what is left, a share for each of the tasks that are left.
    const std::size_t share = (choice.most - chosen.size() + tasks.size() - t - 1) / (tasks.size() - t);
    const std::size_t n = std::min(share, examples.size());
    for (std::size_t i = 0; i < n; ++i) {
      const evaluation::Example& example = *examples[(2 * i + 1) * examples.size() / (2 * n)];
      if (!seen.insert(example.prompt_ids).second) continue;
      results::Prompt& prompt = chosen.emplace_back();
      prompt.name = fmt::format("{}/{}", tasks[t].name, example.id);
      prompt.ids = example.prompt_ids;
      prompt.line = std::ssize(chosen);
    }
  }
  if (chosen.empty() && choice.most > 0)
    throw UsageError(
        fmt::format("--diagnose-length {}: all prompts are longer; expected at least {}, or "
                    "--diagnose 0",
                    choice.max_tokens, fewest_tokens(tasks)));
  return chosen;
}

void add_diagnosis(Adoption& adoption, std::span<const BudgetRecords> all) {
  const Means full(all.front().records, adoption.bootstrap);
  adoption.n_diagnosed = std::ssize(all.front().records);
  adoption.n_diagnosed_tokens = 0;
  for (const validation::PromptRecord& record : all.front().records)
    adoption.n_diagnosed_tokens += record.n_tokens;
  adoption.concentration = {full.of("attention_top_share", "none"), full.of("attention_gini", "none"),
                            full.of("attention_entropy_nats", "none"), full.of("sink_metric", "none"),
                            full.of("learned_sink_share", "none")};
  adoption.geometry = {full.of("spearman", "none"), full.of("key_query_mean_cosine", "none")};
  adoption.full_retained = full.retained("none", false);
  adoption.retained.assign(adoption.candidates.size(), {});
  for (std::size_t i = 0; i < adoption.candidates.size(); ++i) {
    const Candidate& candidate = adoption.candidates[i];
    const auto found = std::ranges::find(all, candidate.budget, &BudgetRecords::budget);
    if (found == all.end()) continue;
    const auto policy = std::ranges::find(found->policies, candidate.policy);
    if (policy == found->policies.end() || found->records.empty()) continue;
    const auto run = static_cast<std::size_t>(policy - found->policies.begin()) + 1;
    const Means means(found->records, adoption.bootstrap);
    adoption.retained[i] = means.retained(found->records.front().runs[run].run, true);
  }
}

}  // namespace keyscope::adoption
