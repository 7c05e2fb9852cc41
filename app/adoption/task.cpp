#include "app/adoption/task.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "analysis/stratified_bootstrap.hpp"

namespace keyscope::adoption {
namespace {

// The score of each example under one grid point, by data set, in the order in which these first come.
ScoresBySet scores_of(const Task& task, std::span<const evaluation::ExampleResult> results, std::size_t point,
                      std::size_t n_points) {
  ScoresBySet scores;
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < task.examples.size(); ++i) {
    const std::string_view set = task.data_sets.empty() ? std::string_view() : task.data_sets[i];
    const auto [place, is_new] = places.try_emplace(set, scores.size());
    if (is_new) scores.emplace_back();
    scores[place->second].push_back(results[i * n_points + point].score(task.score));
  }
  return scores;
}

// As TaskLoss::after_eviction has it.
double share_after_eviction(const Task& task, std::span<const evaluation::ExampleResult> results,
                            std::size_t point, std::size_t n_points) {
  std::int64_t n_scored = 0, n_after = 0;
  for (std::size_t i = 0; i < task.examples.size(); ++i) {
    const evaluation::Example& example = task.examples[i];
    const evaluation::ExampleResult& result = results[i * n_points + point];
    const std::int64_t n_tokens = std::ssize(example.prompt_ids);
    if (task.kind == TaskKind::kScore) {
      n_after += n_tokens + example.continuation.max_new_tokens - 1 > result.budget ? 1 : 0;
      ++n_scored;
    } else {
      // From this position on, what is read sees a cache that something is missing from.
      const std::int64_t evicted_at = (result.budget / result.block + 1) * result.block;
      const std::int64_t first = std::max<std::int64_t>(1, example.score_from.value_or(1));
      n_after += std::max<std::int64_t>(0, n_tokens - std::max(first, evicted_at + 1));
      n_scored += n_tokens - first;
    }
  }
  return n_scored == 0 ? 0 : static_cast<double>(n_after) / static_cast<double>(n_scored);
}

}  // namespace

TaskResult task_result(const Task& task, std::span<const evaluation::ExampleResult> results,
                       std::size_t n_candidates, const analysis::BootstrapOptions& bootstrap) {
  const std::size_t n_points = n_candidates + 1;
  if (results.size() != task.examples.size() * n_points)
    throw InvalidInput(fmt::format("task {}: {} results; expected {} of each of {} examples", task.name,
                                   results.size(), n_points, task.examples.size()));
  TaskResult found;
  TaskOutcome& outcome = found.outcome;
  outcome.name = task.name;
  outcome.metric = task.metric;
  outcome.kind = task.kind;
  outcome.bad_rows = task.bad_rows;
  outcome.n_examples = std::ssize(task.examples);
  for (const evaluation::Example& example : task.examples) outcome.n_tokens += std::ssize(example.prompt_ids);
  const ScoresBySet full = scores_of(task, results, 0, n_points);
  outcome.n_data_sets = std::ssize(full);
  outcome.full = analysis::stratified_bootstrap_mean(full, bootstrap);
  for (std::size_t point = 1; point < n_points; ++point) {
    const ScoresBySet kept = scores_of(task, results, point, n_points);
    outcome.scores.push_back(analysis::stratified_bootstrap_mean(kept, bootstrap));
    found.losses.push_back(task.kind == TaskKind::kScore ? score_loss(task.name, full, kept, bootstrap)
                                                         : likelihood_loss(task.name, full, kept, bootstrap));
    found.losses.back().after_eviction = share_after_eviction(task, results, point, n_points);
  }
  return found;
}

}  // namespace keyscope::adoption
