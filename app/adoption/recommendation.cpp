#include "app/adoption/recommendation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"

namespace keyscope::adoption {
namespace {

// Candidates that need no more above the least than this share of the full cache are alike in memory.
constexpr double kMemoryStep = 0.01;
constexpr double kRoundOff = 1e-9;

// Where there is no interval, the loss itself: what sorts candidates need not be certain.
double high_end(const analysis::BootstrapMean& loss) {
  return std::isfinite(loss.high) ? loss.high : loss.mean;
}

std::size_t worst_task_of(const Candidate& candidate) {
  const auto worst = std::ranges::max_element(candidate.losses, {}, [](const TaskLoss& task) {
    return std::tuple(task.after_eviction > 0, task.loss.mean, high_end(task.loss));
  });
  return static_cast<std::size_t>(worst - candidate.losses.begin());
}

// Of those alike in memory; ascending: what is better comes first.
auto order_of(const Candidate& candidate, std::size_t worst) {
  const double first_token = std::isnan(candidate.first_token_ms) ? std::numeric_limits<double>::infinity()
                                                                  : candidate.first_token_ms;
  return std::pair(candidate.losses[worst].loss.mean, first_token);
}

std::string name_of(const Candidate& candidate) {
  return fmt::format("{} with a budget of {}", candidate.policy, candidate.budget);
}

std::string percent_text(TaskKind kind, double loss) {
  return figures::format_signed(percent_lost(kind, loss), 1);
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
  return fmt::format("{} points{}", figures::format_signed(most, 1),
                     has_text ? " (or per cent of perplexity)" : "");
}

// Which candidate loses least in its worst task; empty where nothing could have been lost.
std::string nearest_text(const Recommendation& recommendation, std::span<const Candidate> candidates) {
  const Candidate* nearest = nullptr;
  const TaskLoss* least = nullptr;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].losses.empty()) continue;
    const TaskLoss& worst = candidates[i].losses[recommendation.worst_task[i]];
    if (worst.after_eviction == 0) continue;
    if (least != nullptr && !(worst.loss.mean < least->loss.mean)) continue;
    nearest = &candidates[i];
    least = &worst;
  }
  if (nearest == nullptr) return "";
  return fmt::format("; nearest comes {}, which loses {}", name_of(*nearest), loss_in(*least));
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

Fitness judge_loss(const TaskLoss& task, double tolerance) {
  const analysis::BootstrapMean& loss = task.loss;
  const bool known = task.after_eviction > 0 && loss.n_samples >= kLeastExamples && std::isfinite(loss.low) &&
                     std::isfinite(loss.high);
  if (!known) return Fitness::kCannotTell;
  if (loss.high <= tolerance) return Fitness::kFit;
  return loss.low > tolerance ? Fitness::kUnfit : Fitness::kCannotTell;
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
    found.worst_task.push_back(worst_task_of(candidates[i]));
  }
  const auto may_be_chosen = [&](std::size_t i) {
    return found.fitness[i] == Fitness::kFit && candidates[i].memory_share < 1 - kRoundOff;
  };
  double least = 1;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (may_be_chosen(i)) least = std::min(least, candidates[i].memory_share);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!may_be_chosen(i) || candidates[i].memory_share > least + kMemoryStep + kRoundOff) continue;
    const auto best = static_cast<std::size_t>(found.chosen);
    if (found.chosen < 0 ||
        order_of(candidates[i], found.worst_task[i]) < order_of(candidates[best], found.worst_task[best]))
      found.chosen = static_cast<int>(i);
  }
  return found;
}

std::string rule_text(const RecommendationRule& rule) {
  return fmt::format(
      "A policy and a budget are fit if in every task the {0:.0f} % interval of the loss against the full "
      "cache, paired example by example, ends at {1:g} points or below ({1:g} % of perplexity); not fit if "
      "in any task it begins above; else it cannot be told, nor from fewer than {2} examples, nor where "
      "nothing was evicted before what is scored. Where no example scored less, the interval ends at what so "
      "many examples leave possible. Of those that are fit and save memory, the one that needs the least is "
      "recommended; of those that need at most {3:.0f} % of the full cache more, the one that loses least on "
      "average in its worst task, then the faster. If there is none, the full cache is kept",
      100 * rule.confidence, 100 * rule.tolerance, kLeastExamples, 100 * kMemoryStep);
}

std::string recommendation_text(const Recommendation& recommendation, std::span<const Candidate> candidates,
                                const RecommendationRule& rule) {
  const auto count = [&](Fitness fitness) {
    return std::count(recommendation.fitness.begin(), recommendation.fitness.end(), fitness);
  };
  if (recommendation.chosen < 0 && count(Fitness::kFit) > 0)
    return fmt::format(
        "Keep the full cache: of {} combinations of policy and budget none is fit and saves memory ({} are "
        "fit, {} are not, {} cannot be told)",
        candidates.size(), count(Fitness::kFit), count(Fitness::kUnfit), count(Fitness::kCannotTell));
  if (recommendation.chosen < 0)
    return fmt::format(
        "Keep the full cache: of {} combinations of policy and budget none is fit ({} are not, {} cannot be "
        "told){}",
        candidates.size(), count(Fitness::kUnfit), count(Fitness::kCannotTell),
        nearest_text(recommendation, candidates));
  const auto index = static_cast<std::size_t>(recommendation.chosen);
  const Candidate& chosen = candidates[index];
  const TaskLoss& worst = chosen.losses[recommendation.worst_task[index]];
  return fmt::format(
      "Adopt {}: it needs {:.0f} % of the full cache's memory and loses at most {} in any task with "
      "{:.0f} % confidence (most on average in {}: {} [{}, {}])",
      name_of(chosen), 100 * chosen.memory_share, most_lost(chosen), 100 * rule.confidence, worst.task,
      percent_text(worst.kind, worst.loss.mean), percent_text(worst.kind, worst.loss.low),
      percent_text(worst.kind, worst.loss.high));
}

}  // namespace keyscope::adoption
