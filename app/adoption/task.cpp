#include "app/adoption/task.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/stratified_bootstrap.hpp"

namespace keyscope::adoption {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 2;

// The results of all grid points, and what eviction did to them.
class TaskResults {
 public:
  //   results: of all examples, each under n_points grid points, of which `none` is the first
  TaskResults(const Task& task, std::span<const evaluation::ExampleResult> results, std::size_t n_points)
      : task_(task), results_(results), n_points_(n_points) {}

  const evaluation::ExampleResult& at(std::size_t example, std::size_t point) const {
    return results_[example * n_points_ + point];
  }

  // What is scored of an example: of a text its tokens, else the answer as a whole.
  std::int64_t n_scored(std::size_t example) const {
    return is_text() ? n_prompt(example) - first_scored(example) : 1;
  }

  // Of that, what came when something had been evicted. A token is told by the one before it.
  std::int64_t n_affected(std::size_t example, std::size_t point) const {
    const std::int64_t evicted = evicted_at(example, point);
    if (is_text())
      return std::max<std::int64_t>(0, n_prompt(example) - std::max(first_scored(example), evicted + 1));
    return n_prompt(example) + at(example, point).n_generated - 2 >= evicted ? 1 : 0;
  }

 private:
  // How many tokens had been read when the next one first met a cache that something was missing from: whole
  // blocks of a prompt, its end, or single tokens of what is generated.
  std::int64_t evicted_at(std::size_t example, std::size_t point) const {
    const evaluation::ExampleResult& result = at(example, point);
    const std::int64_t n_prompt = std::ssize(task_.examples[example].prompt_ids);
    if (n_prompt <= result.budget) return result.budget + 1;
    if (!(result.rows_kept < at(example, 0).rows_kept)) return kNever;
    const std::int64_t block = std::max<std::int64_t>(1, result.block);
    return std::min((result.budget / block + 1) * block, n_prompt);
  }

  bool is_text() const { return task_.kind == TaskKind::kLikelihood; }
  std::int64_t n_prompt(std::size_t example) const { return std::ssize(task_.examples[example].prompt_ids); }
  std::int64_t first_scored(std::size_t example) const {
    return std::max<std::int64_t>(1, task_.examples[example].score_from.value_or(1));
  }

  const Task& task_;
  std::span<const evaluation::ExampleResult> results_;
  std::size_t n_points_;
};

// The score of each example under one grid point, by data set, in the order in which these first come.
//   shares: by which they are divided; examples whose share is 0 are left out
ScoresBySet scores_of(const Task& task, const TaskResults& results, std::size_t point,
                      std::span<const double> shares) {
  ScoresBySet scores;
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < task.examples.size(); ++i) {
    if (shares[i] == 0) continue;
    const std::string_view set = task.data_sets.empty() ? std::string_view() : task.data_sets[i];
    const auto [place, is_new] = places.try_emplace(set, scores.size());
    if (is_new) scores.emplace_back();
    scores[place->second].push_back(results.at(i, point).score(task.score) / shares[i]);
  }
  return scores;
}

TaskLoss loss_of(const Task& task, const ScoresBySet& full, const ScoresBySet& kept,
                 const analysis::BootstrapOptions& bootstrap) {
  return task.kind == TaskKind::kScore ? score_loss(task.name, full, kept, bootstrap)
                                       : likelihood_loss(task.name, full, kept, bootstrap);
}

// What was affected, and its loss; all but TaskLoss::overall.
TaskLoss affected_loss(const Task& task, const TaskResults& results, std::size_t point,
                       const analysis::BootstrapOptions& bootstrap) {
  std::int64_t n_affected = 0, n_scored = 0;
  std::vector<double> shares;
  for (std::size_t i = 0; i < task.examples.size(); ++i) {
    const std::int64_t affected = results.n_affected(i, point), scored = results.n_scored(i);
    shares.push_back(scored == 0 ? 0 : static_cast<double>(affected) / static_cast<double>(scored));
    n_affected += affected;
    n_scored += scored;
  }
  const ScoresBySet full = scores_of(task, results, 0, shares);
  TaskLoss found = loss_of(task, full, scores_of(task, results, point, shares), bootstrap);
  found.full = analysis::stratified_bootstrap_mean(full, bootstrap);
  found.n_affected = n_affected;
  found.n_scored = n_scored;
  found.after_eviction = n_scored == 0 ? 0 : static_cast<double>(n_affected) / static_cast<double>(n_scored);
  return found;
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
  const TaskResults points(task, results, n_points);
  const std::vector<double> all(task.examples.size(), 1.0);
  const ScoresBySet full = scores_of(task, points, 0, all);
  outcome.n_data_sets = std::ssize(full);
  outcome.full = analysis::stratified_bootstrap_mean(full, bootstrap);
  for (std::size_t point = 1; point < n_points; ++point) {
    const ScoresBySet kept = scores_of(task, points, point, all);
    outcome.scores.push_back(analysis::stratified_bootstrap_mean(kept, bootstrap));
    found.losses.push_back(affected_loss(task, points, point, bootstrap));
    found.losses.back().overall = loss_of(task, full, kept, bootstrap).loss;
  }
  return found;
}

}  // namespace keyscope::adoption
