#include "app/figures/head_map.hpp"

#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "app/figures/head_selection.hpp"
#include "app/measures/recording_measures.hpp"

namespace keyscope::figures {

using measures::HeadMeasures;

std::span<const MappedMeasure> mapped_measures() {
  static constexpr std::array kMeasures{
      MappedMeasure{"mean-key-query-cosine", "Mean key against mean query", "cos(mean key, mean query)",
                    &HeadMeasures::key_query_mean_cosine},
      MappedMeasure{"top-key-query-cosine", "Most distinct key against mean query",
                    "cos(key of the highest KeyDiff score, mean query)", &HeadMeasures::top_key_query_cosine},
  };
  return kMeasures;
}

RowMatrixF head_grid(const std::vector<HeadMeasures>& heads, int n_kv_heads,
                     std::optional<double> HeadMeasures::*value, int first_layer, int last_layer) {
  RowMatrixF grid =
      RowMatrixF::Constant(last_layer - first_layer + 1, n_kv_heads, std::numeric_limits<float>::quiet_NaN());
  for (const HeadMeasures& head : heads)
    if (const auto& found = head.*value)
      grid(head.layer - first_layer, head.kv_head) = static_cast<float>(*found);
  return grid;
}

Figure head_map_figure(const recording::Recording& recording, int run, const MappedMeasure& measure) {
  const auto info = recording.info();
  require_run(*info, run);
  require_keys(*info);
  const auto& about = info->runs[static_cast<std::size_t>(run)];

  Heatmap heatmap;
  heatmap.id = std::string(measure.figure);
  heatmap.long_name = std::string(measure.label);
  heatmap.colour_map = ColourMap::kDiverging;
  heatmap.low = -1;
  heatmap.high = 1;
  heatmap.decimals = 2;  // which also say the sign where colours are printed in grey
  heatmap.values = head_grid(measures::measure_heads(recording, run), info->model.n_kv_heads, measure.value,
                             info->layers.front(), info->layers.back());
  heatmap.x_first = -0.5;  // a cell's middle is its head's number
  heatmap.x_end = info->model.n_kv_heads - 0.5;
  heatmap.y_first = info->layers.front() - 0.5;
  heatmap.y_end = info->layers.back() + 0.5;

  Panel panel;
  panel.id = heatmap.id;
  panel.x.label = "KV head";
  panel.y.label = "layer";
  panel.heatmap = std::move(heatmap);
  Figure figure;
  figure.name = std::string(measure.figure);
  figure.title = std::string(measure.title);
  figure.caption = fmt::format("{}. Over all prompt tokens, queries of the whole group together.",
                               describe_run(*info, about));
  figure.view.runs = {about.plan.name};
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::figures
