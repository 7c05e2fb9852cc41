#include "app/adoption/task_loss.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/errors.hpp"

namespace keyscope::adoption {
namespace {

std::vector<double> differences(std::string_view task, std::span<const double> larger,
                                std::span<const double> smaller) {
  if (larger.size() != smaller.size())
    throw InvalidInput(fmt::format("task {}: {} scores against {}; expected one of each example", task,
                                   larger.size(), smaller.size()));
  std::vector<double> found(larger.size());
  std::transform(larger.begin(), larger.end(), smaller.begin(), found.begin(), std::minus<>());
  return found;
}

}  // namespace

TaskLoss score_loss(std::string task, std::span<const double> full, std::span<const double> under_policy,
                    const analysis::BootstrapOptions& options) {
  const std::vector<double> losses = differences(task, full, under_policy);
  analysis::BootstrapMean mean = analysis::bootstrap_mean(losses, options);
  if (std::ranges::none_of(losses, [](double loss) { return loss > 0; }))
    mean.high += 1 - std::pow((1 - options.confidence) / 2, 1 / static_cast<double>(losses.size()));
  return {std::move(task), mean, TaskKind::kScore};
}

TaskLoss likelihood_loss(std::string task, std::span<const double> full, std::span<const double> under_policy,
                         const analysis::BootstrapOptions& options) {
  const std::vector<double> losses = differences(task, under_policy, full);
  return {std::move(task), analysis::bootstrap_mean(losses, options), TaskKind::kLikelihood};
}

double percent_lost(TaskKind kind, double loss) {
  return 100 * (kind == TaskKind::kScore ? loss : std::expm1(loss));
}

}  // namespace keyscope::adoption
