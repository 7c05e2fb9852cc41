#include "app/adoption/adoption.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/validation/number_text.hpp"

namespace keyscope::adoption {
namespace {

constexpr double kConcentrated = 0.5, kDiffuse = 0.2;

std::string with_interval(const analysis::BootstrapMean& mean) {
  return fmt::format("{} {}", validation::number_text(mean.mean), validation::interval_text(mean));
}

}  // namespace

Focus focus_of(const Concentration& concentration) {
  const double share = concentration.top_share.mean;
  if (share >= kConcentrated) return Focus::kConcentrated;
  return share < kDiffuse ? Focus::kDiffuse : Focus::kBetween;
}

std::string focus_text(const Concentration& concentration) {
  const std::string measured =
      fmt::format("The 1 % of positions that receive most attention receive {:.0f} % of it",
                  100 * concentration.top_share.mean);
  switch (focus_of(concentration)) {
    case Focus::kConcentrated:
      return measured +
             ": concentrated, which speaks for keeping what has received most (h2o). What the tasks "
             "lose decides";
    case Focus::kDiffuse:
      return measured +
             ": diffuse, which speaks for keeping keys that differ (keydiff). What the tasks lose "
             "decides";
    case Focus::kBetween:
      break;
  }
  return measured +
         ": neither concentrated (50 % and more) nor diffuse (below 20 %). What the tasks lose decides";
}

std::string redundancy_text(const Adoption& adoption) {
  const auto measured = [](const Retained& one) { return one.cosine_change.n_samples > 0; };
  if (std::ranges::none_of(adoption.retained, measured)) return "";
  std::vector<std::string> redundant;
  for (std::size_t i = 0; i < adoption.retained.size(); ++i)
    if (measured(adoption.retained[i]) && adoption.retained[i].cosine_change.low > 0)
      redundant.push_back(
          fmt::format("{} at {} ({})", adoption.candidates[i].policy, adoption.candidates[i].budget,
                      validation::number_text(adoption.retained[i].mean_pairwise_cosine.mean)));
  const std::string all = validation::number_text(adoption.full_retained.mean_pairwise_cosine.mean);
  if (redundant.empty())
    return fmt::format(
        "Under no policy are retained keys more alike than all keys are ({}), prompt by prompt", all);
  return fmt::format(
      "Retained keys are more alike than all keys are ({}), prompt by prompt, so that part of the budget is "
      "wasted, under {}",
      all, fmt::join(redundant, ", "));
}

std::string examples_text(const TaskOutcome& task) {
  const std::string examples = fmt::format("{} example{}", task.n_examples, task.n_examples == 1 ? "" : "s");
  return task.n_data_sets == 1 ? examples : fmt::format("{} of {} data sets", examples, task.n_data_sets);
}

std::string premise_text(const Geometry& geometry) {
  const auto side = [](const analysis::BootstrapMean& mean, const char* above, const char* below,
                       const char* across) {
    return mean.low > 0 ? above : mean.high < 0 ? below : across;
  };
  return fmt::format(
      "Keys unlike the rest receive {} (ρ {}); mean key and mean query {} (cosine {})",
      side(geometry.spearman, "more attention here", "less attention here, against KeyDiff's premise",
           "neither more nor less attention with certainty"),
      with_interval(geometry.spearman),
      side(geometry.key_query_mean_cosine, "lie on one side, against KeyDiff's premise", "oppose each other",
           "are neither opposed nor aligned with certainty"),
      with_interval(geometry.key_query_mean_cosine));
}

}  // namespace keyscope::adoption
