#include "app/figures/head_comparison.hpp"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figures/head_selection.hpp"
#include "app/measures/recording_measures.hpp"

namespace keyscope::figures {
namespace {

using measures::HeadMeasures;
using recording::RecordingInfo;

// In order of layer and KV head.
std::vector<std::optional<double>> measured_values(const recording::Recording& recording,
                                                   const HeadComparison& selection,
                                                   const HeadMeasure& measure) {
  const std::vector<HeadMeasures> heads = measures::measure_heads(recording, selection.run);
  std::vector<HeadMeasures> others;
  if (selection.reference >= 0) others = measures::measure_heads(recording, selection.reference);
  std::vector<std::optional<double>> values;
  values.reserve(heads.size());
  for (std::size_t i = 0; i < heads.size(); ++i)
    values.push_back(head_value(measure, heads[i], others.empty() ? nullptr : &others[i]));
  return values;
}

Heatmap head_heatmap(const RecordingInfo& info, const std::vector<std::optional<double>>& values) {
  const int first = info.layers.front(), last = info.layers.back(), n_kv_heads = info.model.n_kv_heads;
  Heatmap heatmap;
  heatmap.values =
      RowMatrixF::Constant(last - first + 1, n_kv_heads, std::numeric_limits<float>::quiet_NaN());
  std::size_t at = 0;
  for (const int layer : info.layers)
    for (int kv_head = 0; kv_head < n_kv_heads; ++kv_head, ++at)
      if (values[at]) heatmap.values(layer - first, kv_head) = static_cast<float>(*values[at]);
  heatmap.x_first = -0.5;  // a cell's middle is its head's number
  heatmap.x_end = n_kv_heads - 0.5;
  heatmap.y_first = first - 0.5;
  heatmap.y_end = last + 0.5;
  return heatmap;
}

std::string missing_note(const RecordingInfo& info, const HeadMeasure& measure,
                         const std::vector<std::optional<double>>& values) {
  std::size_t n_missing = 0;
  int kv_head = -1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i]) continue;
    if (n_missing++ == 0) kv_head = static_cast<int>(i) % info.model.n_kv_heads;
  }
  if (n_missing == 0) return "";
  return fmt::format("{} of {} heads have no value: {}", n_missing, values.size(),
                     missing_reason(info, measure, kv_head));
}

}  // namespace

Figure head_comparison_figure(const recording::Recording& recording, const HeadComparison& selection,
                              const HeadMeasure& measure) {
  const auto info = recording.info();
  require_run(*info, selection.run);
  const recording::RunInfo& run = info->runs[static_cast<std::size_t>(selection.run)];
  std::string reference;
  if (selection.reference >= 0) {
    require_run(*info, selection.reference);
    reference = info->runs[static_cast<std::size_t>(selection.reference)].plan.name;
  }
  const auto values = measured_values(recording, selection, measure);
  const MeasureScale scale = measure_scale(measure, values, run.plan.name, reference);

  Panel panel;
  panel.id = measure.id;
  panel.x.label = "KV head";
  panel.y.label = "layer";
  panel.note = missing_note(*info, measure, values);
  panel.heatmap = head_heatmap(*info, values);
  panel.heatmap->id = measure.id;
  panel.heatmap->long_name = scale.name;
  panel.heatmap->units = measure.unit;
  panel.heatmap->colour_map = scale.colour_map;
  panel.heatmap->low = static_cast<float>(scale.low);
  panel.heatmap->high = static_cast<float>(scale.high);
  panel.heatmap->decimals = measure.decimals;

  Figure figure;
  figure.name = "head-map";
  figure.title = fmt::format("{}, {}", measure.label, compared_runs(measure, run.plan.name, reference));
  figure.caption =
      fmt::format("{}. At the end of the prompt: {}.", describe_run(*info, run), measure.meaning);
  figure.view.runs = {run.plan.name};
  if (!reference.empty()) figure.view.runs.push_back(reference);
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::figures
