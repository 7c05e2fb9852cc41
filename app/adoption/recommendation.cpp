#include "app/adoption/recommendation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"

namespace keyscope::adoption {
namespace {

// Candidates whose memory differs by less are alike in it.
constexpr double kMemoryStep = 0.01;

// Where there is no interval, the loss itself: what sorts candidates need not be certain.
double high_end(const analysis::BootstrapMean& loss) {
  return std::isfinite(loss.high) ? loss.high : loss.mean;
}

std::size_t worst_task_of(const Candidate& candidate) {
  const auto worst = std::max_element(
      candidate.losses.begin(), candidate.losses.end(),
      [](const TaskLoss& a, const TaskLoss& b) { return high_end(a.loss) < high_end(b.loss); });
  return static_cast<std::size_t>(worst - candidate.losses.begin());
}

// Ascending: what is better comes first.
auto order_of(const Candidate& candidate, std::size_t worst) {
  const double first_token = std::isnan(candidate.first_token_ms) ? std::numeric_limits<double>::infinity()
                                                                  : candidate.first_token_ms;
  return std::tuple(std::floor(candidate.memory_share / kMemoryStep), candidate.losses[worst].loss.mean,
                    first_token);
}

std::string name_of(const Candidate& candidate) {
  return fmt::format("{} with a budget of {}", candidate.policy, candidate.budget);
}

std::string points(double share) { return figures::format_signed(100 * share, 1); }

// Which candidate loses least in its worst task; empty without tasks.
std::string nearest_text(const Recommendation& recommendation, std::span<const Candidate> candidates) {
  const Candidate* nearest = nullptr;
  const TaskLoss* least = nullptr;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].losses.empty()) continue;
    const TaskLoss& worst = candidates[i].losses[recommendation.worst_task[i]];
    if (least != nullptr && !(worst.loss.mean < least->loss.mean)) continue;
    nearest = &candidates[i];
    least = &worst;
  }
  if (nearest == nullptr) return "";
  return fmt::format("; nearest comes {}, which loses {} points in {}", name_of(*nearest),
                     points(least->loss.mean), least->task);
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

Fitness judge_loss(const analysis::BootstrapMean& loss, double tolerance) {
  const bool known = loss.n_samples >= kLeastExamples && std::isfinite(loss.low) && std::isfinite(loss.high);
  if (!known) return Fitness::kCannotTell;
  if (loss.high <= tolerance) return Fitness::kFit;
  return loss.low > tolerance ? Fitness::kUnfit : Fitness::kCannotTell;
}

Fitness judge(const Candidate& candidate, double tolerance) {
  if (candidate.losses.empty()) return Fitness::kCannotTell;
  Fitness all = Fitness::kFit;
  for (const TaskLoss& task : candidate.losses) {
    const Fitness one = judge_loss(task.loss, tolerance);
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
    if (found.fitness[i] != Fitness::kFit) continue;
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
      "cache, paired example by example, ends at {1} points or below ({1} % of perplexity); not fit if in "
      "any "
      "task it begins above; else, and from fewer than {2} examples, it cannot be told. Of those that are "
      "fit, the one that needs the least memory is recommended; of those within {3:.0f} % of the full cache, "
      "the one that loses least in its worst task, then the faster. If none is fit, the full cache is kept",
      100 * rule.confidence, points(rule.tolerance), kLeastExamples, 100 * kMemoryStep);
}

std::string recommendation_text(const Recommendation& recommendation, std::span<const Candidate> candidates,
                                const RecommendationRule& rule) {
  const auto count = [&](Fitness fitness) {
    return std::count(recommendation.fitness.begin(), recommendation.fitness.end(), fitness);
  };
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
      "Adopt {}: it needs {:.0f} % of the full cache's memory and loses at most {} points in any task with "
      "{:.0f} % confidence (most in {}: {} [{}, {}])",
      name_of(chosen), 100 * chosen.memory_share, points(high_end(worst.loss)), 100 * rule.confidence,
      worst.task, points(worst.loss.mean), points(worst.loss.low), points(worst.loss.high));
}

}  // namespace keyscope::adoption
