#include "app/adoption/task_loss.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "analysis/clopper_pearson.hpp"
#include "base/errors.hpp"
#include "analysis/stratified_bootstrap.hpp"

namespace keyscope::adoption {
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
