#include "app/figures/ablation.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/figures/head_selection.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/spread.hpp"
#include "app/measures/head_data.hpp"
#include "app/measures/recording_measures.hpp"

namespace keyscope::figures {
namespace {

using measures::HeadMeasures;
using recording::RecordingInfo;

std::vector<int> evicting_runs(const RecordingInfo& info, const AblationSelection& selection) {
  std::vector<int> runs;
  for (const int run : selection.runs) {
    require_run(info, run);
    if (info.runs[static_cast<std::size_t>(run)].plan.policy != "none") runs.push_back(run);
  }
  if (measures::full_cache_run(info) < 0 || runs.empty())
    throw FileError(
        fmt::format("{}: what evicting costs needs a finished run `none` and one that evicts", info.source));
  return runs;
}

// The parts of a label, between commas, that another one lacks; the label itself where that leaves nothing.
std::string beyond(const std::string& label, const std::string& other) {
  std::string rest;
  for (std::size_t at = 0; at < label.size();) {
    const std::size_t end = std::min(label.find(", ", at), label.size());
    const std::string part = label.substr(at, end - at);
    if ((", " + other + ", ").find(", " + part + ", ") == std::string::npos)
      rest += (rest.empty() ? "" : ", ") + part;
    at = end + 2;
  }
  return rest.empty() ? label : rest;
}

// Where all runs have one policy and options tell them apart: the first run's options, and of the others what
// differs from it. Elsewhere names as an axis has them.
RunNames names_of(const RecordingInfo& info, const std::vector<int>& runs) {
  const std::string prefix = info.runs[static_cast<std::size_t>(runs.front())].plan.policy + ", ";
  std::vector<std::string> labels;
  for (const int run : runs) labels.push_back(run_label(info, run));
  const bool one_policy =
      std::ranges::all_of(labels, [&](const std::string& label) { return label.starts_with(prefix); });
  if (!one_policy) return name_runs(info, runs);
  for (std::string& label : labels) label.erase(0, prefix.size());
  for (std::size_t i = labels.size(); i-- > 1;) labels[i] = beyond(labels[i], labels.front());
  return {labels, ""};
}

Panel empty_panel(const char* id, const char* title, Axis y, const std::vector<std::string>& labels) {
  Panel panel;
  panel.id = id;
  panel.title = title;
  panel.x.categories = labels;
  panel.y = std::move(y);
  panel.legend = false;
  return panel;
}

using Heads = std::vector<std::vector<HeadMeasures>>;

void add_head_panel(Figure& figure, Panel panel, const Heads& heads,
                    std::optional<double> HeadMeasures::*value) {
  SpreadSeries spread("median", "median, 5 to 95 % of heads", kBlue, Marker::kDisc, 6);
  bool any = false;
  for (std::size_t r = 0; r < heads.size(); ++r) {
    std::vector<double> values;
    for (const HeadMeasures& head : heads[r])
      if (const auto& found = head.*value) values.push_back(*found);
    any = any || !values.empty();
    spread.add(static_cast<double>(r), values);
  }
  if (!any) return;
  std::move(spread).put_into(panel);
  figure.panels.push_back(std::move(panel));
}

void add_kl_panel(Figure& figure, Panel panel, const recording::Recording& recording,
                  const std::vector<int>& runs) {
  PointSeries means;
  means.id = "kl";
  means.colour = kBlue;
  means.marker = Marker::kDiamond;
  means.size_px = 7;
  for (std::size_t r = 0; r < runs.size(); ++r)
    if (const auto kl = measures::measure_run(recording, runs[r]).kl_nats) {
      means.x.push_back(static_cast<float>(r));
      means.y.push_back(static_cast<float>(*kl));
    }
  if (means.x.empty()) return;
  panel.points.push_back(std::move(means));
  figure.panels.push_back(std::move(panel));
}

}  // namespace

Figure ablation_figure(const recording::Recording& recording, const AblationSelection& selection) {
  const auto info = recording.info();
  const std::vector<int> runs = evicting_runs(*info, selection);
  const auto [labels, key] = names_of(*info, runs);
  Figure figure;
  Heads heads;
  for (const int run : runs) {
    const auto& about = info->runs[static_cast<std::size_t>(run)];
    heads.push_back(measures::measure_heads(recording, run, resolve_block(about, selection.block)));
    figure.view.runs.push_back(about.plan.name);
  }
  add_head_panel(figure,
                 empty_panel("attention_mass", "attention kept", {"share of the full cache's", ""}, labels),
                 heads, &HeadMeasures::attention_mass_kept);
  add_head_panel(figure, empty_panel("output_error", "output error", {"relative error", ""}, labels), heads,
                 &HeadMeasures::output_error);
  add_kl_panel(figure, empty_panel("kl_divergence", "KL divergence", {"from the full cache", "nats"}, labels),
               recording, runs);
  figure.name = "ablation";
  figure.title = "What evicting costs";
  figure.columns = 3;
  figure.view.block = selection.block;
  const auto& first = info->runs[static_cast<std::size_t>(runs.front())].plan;
  const bool one_policy = key.empty() && labels.front() != run_label(*info, runs.front());
  figure.caption =
      fmt::format("{}{}{}. Heads: median, 5 to 95 % of {} layers × {} KV heads.{}", describe_prompt(*info),
                  one_policy ? ", " + first.policy : "", describe_budget(*info, runs), info->layers.size(),
                  info->model.n_kv_heads, key);
  return figure;
}

}  // namespace keyscope::figures
