#include "app/adoption/recommendation.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/statistics.hpp"
#include "app/figures/axis_ticks.hpp"
#include "base/errors.hpp"
#include "base/interval_text.hpp"
#include "base/text.hpp"

namespace keyscope::adoption {

bool has_interval(const analysis::BootstrapMean& mean) {
  return std::isfinite(mean.low) && std::isfinite(mean.high);
}

namespace {

// Candidates that need no more above the least than this share of the full cache are alike in memory.
constexpr double kMemoryStep = 0.01;
constexpr double kRoundOff = 1e-9;

// Where there is no interval, the loss itself: what sorts candidates need not be certain.
double high_end(const analysis::BootstrapMean& loss) {
  return std::isfinite(loss.high) ? loss.high : loss.mean;
}

// Whether the task could have lost anything.
bool says_anything(const TaskLoss& task, double tolerance) {
  return task.after_eviction > 0 && solved_by_full(task, tolerance);
}

std::size_t worst_task_of(const Candidate& candidate, double tolerance) {
  const auto worst = std::ranges::max_element(candidate.losses, {}, [&](const TaskLoss& task) {
    const bool says = says_anything(task, tolerance);
    return std::tuple(says, says ? percent_lost(task.kind, task.loss.mean) : 0,
                      says ? percent_lost(task.kind, high_end(task.loss)) : 0);
  });
  return worst - candidate.losses.begin();
}

double worst_loss(const Candidate& candidate, std::size_t worst) {
  const TaskLoss& task = candidate.losses[worst];
  return percent_lost(task.kind, task.loss.mean);
}

bool is_faster(const Candidate& candidate, const Candidate& other) {
  const benchmarks::RoundTimes &one = candidate.first_token_ms, &two = other.first_token_ms;
  return !one.times.empty() && !two.times.empty() && benchmarks::paired_ratio(one, two).is_faster();
}

std::string name_of(const Candidate& candidate) {
  return fmt::format("{} with a budget of {}", candidate.policy, candidate.budget);
}

std::string percent_text(TaskKind kind, double loss) { return format_signed(percent_lost(kind, loss), 1); }

// "1.5 [−0.2, 3.1]", in points of a score or per cent of a perplexity.
std::string percent_with_interval(TaskKind kind, const analysis::BootstrapMean& loss) {
  return mean_text(percent_lost(kind, loss.mean), percent_lost(kind, loss.low), percent_lost(kind, loss.high),
                   1);
}

// What is known of the time to the first token; nothing where it was not measured.
std::string first_token_text(const Candidate& candidate) {
  if (!candidate.first_token_ratio) return "";
  const benchmarks::PairedRatio& ratio = *candidate.first_token_ratio;
  if (!ratio.told())
    return fmt::format("; whether its first token comes sooner or later cannot be told ({})", ratio.doubt);
  return fmt::format("; its first token takes {} times as long as the full cache's",
                     benchmarks::ratio_text(ratio));
}

// "15.0 points in niah", "16.2 % of perplexity".
std::string loss_in(const TaskLoss& task) {
  const std::string lost = percent_text(task.kind, task.loss.mean);
  return task.kind == TaskKind::kScore ? fmt::format("{} points in {}", lost, task.task)
                                       : fmt::format("{} % of perplexity", lost);
}

// The most that any task may lose, by its interval's end, and in which unit.
std::string most_lost(const Candidate& candidate) {
  const bool has_text = std::ranges::any_of(
      candidate.losses, [](const TaskLoss& task) { return task.kind == TaskKind::kLikelihood; });
  double most = -std::numeric_limits<double>::infinity();
  for (const TaskLoss& task : candidate.losses)
    most = std::max(most, percent_lost(task.kind, high_end(task.loss)));
  return fmt::format("{} points{}", format_signed(most, 1), has_text ? " (or per cent of perplexity)" : "");
}

// Which candidate loses least in its worst task; empty where nothing could have been lost.
std::string nearest_text(const Recommendation& recommendation, std::span<const Candidate> candidates,
                         double tolerance) {
  const Candidate* nearest = nullptr;
  const TaskLoss* least = nullptr;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].losses.empty()) continue;
    const TaskLoss& worst = candidates[i].losses[recommendation.worst_task[i]];
    if (!says_anything(worst, tolerance)) continue;
    if (least != nullptr &&
        !(percent_lost(worst.kind, worst.loss.mean) < percent_lost(least->kind, least->loss.mean)))
      continue;
    nearest = &candidates[i];
    least = &worst;
  }
  if (nearest == nullptr) return "";
  return fmt::format("; nearest comes {}, which loses {}", name_of(*nearest), loss_in(*least));
}

// Which tasks say nothing under any candidate since the full cache does not solve them; empty where there is
// none.
std::string unsolved_text(std::span<const Candidate> candidates, double tolerance) {
  std::vector<std::string> unsolved;
  std::set<std::string> solved;
  for (const Candidate& candidate : candidates)
    for (const TaskLoss& task : candidate.losses) {
      if (task.after_eviction == 0) continue;
      if (solved_by_full(task, tolerance))
        solved.insert(task.task);
      else if (std::ranges::find(unsolved, task.task) == unsolved.end())
        unsolved.push_back(task.task);
    }
  std::erase_if(unsolved, [&](const std::string& task) { return solved.contains(task); });
  if (unsolved.empty()) return "";
  return fmt::format(
      "; of the tasks, the full cache itself does not solve {}, which therefore say{} nothing about eviction",
      fmt::join(unsolved, ", "), unsolved.size() == 1 ? "s" : "");
}

}  // namespace

std::string_view fitness_name(Fitness fitness) {
  switch (fitness) {
    case Fitness::kFit:
      return "fit";
    case Fitness::kUnfit:
      return "not fit";
    case Fitness::kCannotTell:
      return "cannot tell";
  }
  return "";
}

bool solved_by_full(const TaskLoss& task, double tolerance) {
  // Without an interval there are too few examples, whatever they score.
  return task.kind == TaskKind::kLikelihood || !(task.full.low <= tolerance);
}

Fitness judge_loss(const TaskLoss& task, double tolerance) {
  const analysis::BootstrapMean& loss = task.loss;
  const bool known = says_anything(task, tolerance) && loss.n_samples >= kLeastExamples && has_interval(loss);
  if (!known) return Fitness::kCannotTell;
  const double most = tolerance_of(task.kind, tolerance);
  if (loss.high <= most) return Fitness::kFit;
  return loss.low > most ? Fitness::kUnfit : Fitness::kCannotTell;
}

std::string doubt_text(const TaskLoss& task, double tolerance) {
  if (judge_loss(task, tolerance) != Fitness::kCannotTell) return "";
  if (task.after_eviction == 0) return "nothing was evicted before what is scored";
  if (!solved_by_full(task, tolerance))
    return fmt::format(
        "the full cache itself scores {} %, which does not begin above the tolerance of {:g} points",
        mean_text(100 * task.full.mean, 100 * task.full.low, 100 * task.full.high, 1), 100 * tolerance);
  if (task.loss.n_samples < kLeastExamples)
    return fmt::format(
        "{}; at least {} are needed",
        counted(task.loss.n_samples, task.kind == TaskKind::kScore ? "affected example" : "affected window"),
        kLeastExamples);
  if (!has_interval(task.loss)) return "a data set has a single affected example, which leaves no interval";
  return "the interval reaches across the tolerance";
}

Fitness judge(const Candidate& candidate, double tolerance) {
  if (candidate.losses.empty()) return Fitness::kCannotTell;
  Fitness all = Fitness::kFit;
  for (const TaskLoss& task : candidate.losses) {
    const Fitness one = judge_loss(task, tolerance);
    if (one == Fitness::kUnfit) return one;
    if (one == Fitness::kCannotTell) all = one;
  }
  return all;
}

Recommendation recommend(std::span<const Candidate> candidates, const RecommendationRule& rule) {
  Recommendation found;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    found.fitness.push_back(judge(candidates[i], rule.tolerance));
    found.worst_task.push_back(worst_task_of(candidates[i], rule.tolerance));
  }
  const auto may_be_chosen = [&](std::size_t i) {
    return found.fitness[i] == Fitness::kFit && candidates[i].p95_memory_share <= kMostMemory + kRoundOff;
  };
  double least = 1;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (may_be_chosen(i)) least = std::min(least, candidates[i].memory_share);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!may_be_chosen(i) || candidates[i].memory_share > least + kMemoryStep + kRoundOff) continue;
    if (found.chosen < 0) {
      found.chosen = static_cast<int>(i);
      continue;
    }
    const double lost = worst_loss(candidates[i], found.worst_task[i]);
    const double most = worst_loss(candidates[found.chosen], found.worst_task[found.chosen]);
    if (lost < most || (lost == most && is_faster(candidates[i], candidates[found.chosen])))
      found.chosen = static_cast<int>(i);
  }
  return found;
}

std::string rule_text(const RecommendationRule& rule) {
  return fmt::format(
      "A policy and a budget are fit if in every task the {0:.0f} % interval of the loss against the full "
      "cache, paired example by example, ends at {1:g} points or below ({1:g} % of perplexity); not fit if "
      "in any task it begins above; else \"cannot tell\". Only what eviction affected is judged: the "
      "examples of which something was evicted before their last scored token, and of a text the loss per "
      "token that comes after an eviction. Nothing is decided from fewer than {2} such examples, nor of a "
      "task that the full cache itself does not solve, whose score over them has an interval that does not "
      "begin above {1:g} points. A score's interval ends no lower than the exact binomial one (Clopper and "
      "Pearson) of as many failures as its losses add up to. Of those that are fit and save memory, needing "
      "at most {4:.0f} % of the full cache's bytes at the 95th-percentile prompt, the one that needs the "
      "least is recommended; of those that need at most {3:.0f} % of the full cache more, the one that loses "
      "least on average in its worst task, then one that is faster, if that can be told. If "
      "there is none, the full cache is kept",
      100 * rule.confidence, 100 * rule.tolerance, kLeastExamples, 100 * kMemoryStep, 100 * kMostMemory);
}

std::string recommendation_text(const Recommendation& recommendation, std::span<const Candidate> candidates,
                                const RecommendationRule& rule) {
  const auto count = [&](Fitness fitness) {
    return std::count(recommendation.fitness.begin(), recommendation.fitness.end(), fitness);
  };
  if (recommendation.chosen < 0 && count(Fitness::kFit) > 0)
    return fmt::format(
        "Keep the full cache: of {} combinations of policy and budget none is fit and saves memory ({} are "
        "fit, {} are not, {} undecided)",
        candidates.size(), count(Fitness::kFit), count(Fitness::kUnfit), count(Fitness::kCannotTell));
  if (recommendation.chosen < 0)
    return fmt::format(
        "Keep the full cache: of {} combinations of policy and budget none is fit ({} are not, {} "
        "undecided){}{}",
        candidates.size(), count(Fitness::kUnfit), count(Fitness::kCannotTell),
        nearest_text(recommendation, candidates, rule.tolerance), unsolved_text(candidates, rule.tolerance));
  const Candidate& chosen = candidates[recommendation.chosen];
  const TaskLoss& worst = chosen.losses[recommendation.worst_task[recommendation.chosen]];
  return fmt::format(
      "Adopt {}: it needs {:.0f} % of the full cache's memory and loses at most {} in any task with "
      "{:.0f} % confidence (most on average in {}: {}){}",
      name_of(chosen), 100 * chosen.memory_share, most_lost(chosen), 100 * rule.confidence, worst.task,
      percent_with_interval(worst.kind, worst.loss), first_token_text(chosen));
}

namespace {

ScoresBySet differences(std::string_view task, const ScoresBySet& larger, const ScoresBySet& smaller) {
  if (larger.size() != smaller.size())
    throw InvalidInput(fmt::format("task {}: scores of {} data sets against {}; expected the same", task,
                                   larger.size(), smaller.size()));
  ScoresBySet found(larger.size());
  for (std::size_t set = 0; set < larger.size(); ++set) {
    if (larger[set].size() != smaller[set].size())
      throw InvalidInput(fmt::format("task {}: {} scores against {}; expected one of each example", task,
                                     larger[set].size(), smaller[set].size()));
    std::ranges::transform(larger[set], smaller[set], std::back_inserter(found[set]), std::minus<>());
  }
  return found;
}

// As score_loss has it.
double cautious_high(const ScoresBySet& losses, const analysis::BootstrapMean& mean, double confidence) {
  const std::size_t smallest = std::ranges::min_element(losses, {}, &std::vector<double>::size)->size();
  const auto n = static_cast<double>(smallest * losses.size());
  const double failures = std::clamp(n * mean.mean, 0.0, n);
  const double bound = analysis::clopper_pearson_high(failures, n, confidence);
  return std::max(mean.high, std::min(0.0, mean.high) + bound);
}

}  // namespace

TaskLoss score_loss(std::string task, const ScoresBySet& full, const ScoresBySet& under_policy,
                    const analysis::BootstrapOptions& options) {
  const ScoresBySet losses = differences(task, full, under_policy);
  analysis::BootstrapMean mean = analysis::stratified_bootstrap_mean(losses, options);
  if (std::isfinite(mean.high)) mean.high = cautious_high(losses, mean, options.confidence);
  return {std::move(task), mean, TaskKind::kScore};
}

TaskLoss likelihood_loss(std::string task, const ScoresBySet& full, const ScoresBySet& under_policy,
                         const analysis::BootstrapOptions& options) {
  const ScoresBySet losses = differences(task, under_policy, full);
  return {std::move(task), analysis::stratified_bootstrap_mean(losses, options), TaskKind::kLikelihood};
}

double percent_lost(TaskKind kind, double loss) {
  return 100 * (kind == TaskKind::kScore ? loss : std::expm1(loss));
}

double tolerance_of(TaskKind kind, double tolerance) {
  return kind == TaskKind::kScore ? tolerance : std::log1p(tolerance);
}

}  // namespace keyscope::adoption
