#include "app/figures/policy_spread.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/figures/head_selection.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/spread.hpp"
#include "app/measures/recording_measures.hpp"

namespace keyscope::figures {
namespace {

using measures::HeadMeasures;
using recording::RunInfo;

constexpr double kCloudWidth = 0.5;  // of the distance between two runs
constexpr double kBarPlace = -0.33;  // left of the cloud

// Heads lie side by side in the order of their layers, so that a trend over depth shows.
void add_cloud(PointSeries& cloud, double place, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double share = values.size() > 1 ? double(i) / double(values.size() - 1) - 0.5 : 0;
    cloud.x.push_back(static_cast<float>(place + 0.08 + kCloudWidth * share));
    cloud.y.push_back(static_cast<float>(values[i]));
  }
}

bool any_evicts(const recording::RecordingInfo& info, const std::vector<int>& runs) {
  return std::ranges::any_of(runs, [&](int run) {
    require_run(info, run);
    return info.runs[static_cast<std::size_t>(run)].plan.policy != "none";
  });
}

}  // namespace

std::span<const ComparedMeasure> compared_measures() {
  static const std::array<ComparedMeasure, 5> kMeasures{{
      {"log-volume",
       "Log volume of the retained keys",
       {"log volume", "nats"},
       &HeadMeasures::log_volume_nats},
      {"redundancy",
       "Redundancy of the retained keys",
       {"mean pairwise cosine", ""},
       &HeadMeasures::mean_pairwise_cosine},
      {"cosine-objective",
       "Eq. A.2's objective: the sum of all cosines",
       {"sum of pairwise cosines", ""},
       &HeadMeasures::cosine_objective,
       true},
      {"attention-mass",
       "Attention that falls on the retained rows",
       {"share of the full cache's attention", ""},
       &HeadMeasures::attention_mass_kept},
      {"output-error",
       "What attention loses",
       {"relative error of attention's output", ""},
       &HeadMeasures::output_error},
  }};
  return kMeasures;
}

Figure policy_spread_figure(const recording::Recording& recording, const PolicySpreadSelection& selection,
                            const ComparedMeasure& measure) {
  const auto info = recording.info();
  SpreadSeries spread("median", "median, 5 to 95 %", kBlack, Marker::kDiamond, 6);
  PointSeries cloud;
  cloud.id = "heads";
  cloud.label = "a KV head of a layer, layers from left to right";
  cloud.colour = kBlue;
  cloud.size_px = info->layers.size() * static_cast<std::size_t>(info->model.n_kv_heads) > 64 ? 3 : 5;
  const bool without_full_cache = measure.grows_with_size && any_evicts(*info, selection.runs);
  Panel panel;
  Figure figure;
  std::vector<int> shown;
  for (const int run : selection.runs) {
    require_run(*info, run);
    const RunInfo& about = info->runs[static_cast<std::size_t>(run)];
    if (without_full_cache && about.plan.policy == "none") continue;
    const auto place = static_cast<double>(shown.size());
    shown.push_back(run);
    figure.view.runs.push_back(about.plan.name);
    std::vector<double> values;
    for (const HeadMeasures& head :
         measures::measure_heads(recording, run, resolve_block(about, selection.block)))
      if (const auto& value = head.*measure.value) values.push_back(*value);
    add_cloud(cloud, place, values);
    spread.add(place + kBarPlace, values);
  }
  if (cloud.x.empty())
    throw FileError(fmt::format(
        "{}: {} is not known for any head: it needs keys, two of them retained, and what compares with "
        "the full cache needs a run `none` (with --record keys,queries,values for the output)",
        info->source, measure.figure));
  RunNames named = name_runs(*info, shown);
  panel.x.categories = std::move(named.names);
  panel.id = std::string(measure.figure);
  panel.y = measure.axis;
  panel.points.push_back(std::move(cloud));
  std::move(spread).put_into(panel);
  figure.name = std::string(measure.figure);
  figure.title = std::string(measure.title);
  figure.view.block = selection.block;
  figure.caption = fmt::format("{}, {} layers × {} KV heads{}", describe_prompt(*info), info->layers.size(),
                               info->model.n_kv_heads, describe_budget(*info, shown));
  if (without_full_cache)
    figure.caption += ". Sums grow with the number of keys: the full cache's is left out";
  if (!named.key.empty()) figure.caption += "." + named.key;
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::figures
