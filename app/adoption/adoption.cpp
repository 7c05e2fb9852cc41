#include "app/adoption/adoption.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/validation/number_text.hpp"

namespace keyscope::adoption {
namespace {

constexpr std::string_view kTooFewPrompts = "measured on too few prompts for an interval";
constexpr double kConcentrated = 0.5, kDiffuse = 0.2;

bool has_interval(const analysis::BootstrapMean& mean) {
  return std::isfinite(mean.low) && std::isfinite(mean.high);
}

// "0.300 [0.200, 0.400]", or the mean alone.
std::string with_interval(const analysis::BootstrapMean& mean) {
  if (!has_interval(mean)) return validation::number_text(mean.mean);
  return fmt::format("{} {}", validation::number_text(mean.mean), validation::interval_text(mean));
}

// How alike retained keys are against all keys, in the order in which it is told.
enum class Likeness { kMore, kLittleMore, kUncertain, kLess, kNoInterval };
constexpr std::array kLikenesses{Likeness::kMore, Likeness::kLittleMore, Likeness::kUncertain,
                                 Likeness::kLess, Likeness::kNoInterval};

Likeness likeness_of(const analysis::BootstrapMean& change) {
  if (!has_interval(change)) return Likeness::kNoInterval;
  if (change.low > 0) return change.mean >= kLeastCosineChange ? Likeness::kMore : Likeness::kLittleMore;
  return change.high < 0 ? Likeness::kLess : Likeness::kUncertain;
}

std::string likeness_text(Likeness likeness) {
  switch (likeness) {
    case Likeness::kMore:
      return fmt::format("more alike by {:g} or more, so that part of the budget is wasted,",
                         kLeastCosineChange);
    case Likeness::kLittleMore:
      return fmt::format("more alike, but by less than {:g},", kLeastCosineChange);
    case Likeness::kUncertain:
      return "not more alike with certainty";
    case Likeness::kLess:
      return "less alike";
    case Likeness::kNoInterval:
      break;
  }
  return fmt::format("not told from them, as {},", kTooFewPrompts);
}

// "sink at 25% (0.600), sink at 50% (0.600)", of those that were measured and are of that likeness.
std::string alike_as(const Adoption& adoption, Likeness likeness) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < adoption.retained.size(); ++i) {
    const Retained& one = adoption.retained[i];
    if (one.cosine_change.n_samples == 0 || likeness_of(one.cosine_change) != likeness) continue;
    names.push_back(fmt::format("{} at {} ({})", adoption.candidates[i].policy, adoption.candidates[i].budget,
                                validation::number_text(one.mean_pairwise_cosine.mean)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Of a mean that has an interval.
std::string_view side_of(const analysis::BootstrapMean& mean, std::string_view above, std::string_view below,
                         std::string_view across) {
  return mean.low > 0 ? above : mean.high < 0 ? below : across;
}

}  // namespace

bool all_affected(const Adoption& adoption) {
  return std::ranges::all_of(adoption.candidates, [](const Candidate& candidate) {
    return std::ranges::all_of(candidate.losses,
                               [](const TaskLoss& task) { return task.after_eviction >= 1; });
  });
}

double share_without_first(const Concentration& concentration) {
  const double first = concentration.sink_metric.mean, top = concentration.top_share.mean;
  if (!std::isfinite(first)) return top;
  return first < 1 ? std::max(0.0, (top - first) / (1 - first)) : 0;
}

Focus focus_of(const Concentration& concentration) {
  const double share = share_without_first(concentration);
  if (share >= kConcentrated) return Focus::kConcentrated;
  return share < kDiffuse ? Focus::kDiffuse : Focus::kBetween;
}

std::string focus_text(const Concentration& concentration) {
  const double top = concentration.top_share.mean, first = concentration.sink_metric.mean;
  const std::string measured = fmt::format(
      "The 1 % of positions that receive most attention receive {:.0f} % of it, the first position {:.0f} %{}"
      ". Of what the first leaves, the others of them receive {:.0f} % (a ratio of means over heads)",
      100 * top, 100 * first, first > top / 2 ? ", which makes up most of it" : "",
      100 * share_without_first(concentration));
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
  std::vector<std::string> parts;
  for (const Likeness likeness : kLikenesses)
    if (const std::string names = alike_as(adoption, likeness); !names.empty())
      parts.push_back(fmt::format("{} under {}", likeness_text(likeness), names));
  if (parts.empty()) return "";
  return fmt::format("Against all keys ({}), prompt by prompt and in mean cosine, retained keys are {}",
                     validation::number_text(adoption.full_retained.mean_pairwise_cosine.mean),
                     fmt::join(parts, "; "));
}

std::string examples_text(const TaskOutcome& task) {
  const std::string examples = fmt::format("{} example{}", task.n_examples, task.n_examples == 1 ? "" : "s");
  return task.n_data_sets == 1 ? examples : fmt::format("{} of {} data sets", examples, task.n_data_sets);
}

std::string premise_text(const Geometry& geometry) {
  const std::string unlike =
      has_interval(geometry.spearman)
          ? fmt::format("Keys unlike the rest receive {} (ρ {})",
                        side_of(geometry.spearman, "more attention here",
                                "less attention here, against KeyDiff's premise",
                                "neither more nor less attention with certainty"),
                        with_interval(geometry.spearman))
          : fmt::format("Whether keys unlike the rest receive more attention was {} (ρ {})", kTooFewPrompts,
                        with_interval(geometry.spearman));
  const analysis::BootstrapMean& cosine = geometry.key_query_mean_cosine;
  const std::string opposed =
      has_interval(cosine)
          ? fmt::format("mean key and mean query {} (cosine {})",
                        side_of(cosine, "lie on one side, against KeyDiff's premise", "oppose each other",
                                "are neither opposed nor aligned with certainty"),
                        with_interval(cosine))
          : fmt::format("whether mean key and mean query oppose each other was {} (cosine {})",
                        kTooFewPrompts, with_interval(cosine));
  return unlike + "; " + opposed;
}

}  // namespace keyscope::adoption
