#include "app/figures/rank_correlation.hpp"

#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figures/head_selection.hpp"
#include "app/figures/spread.hpp"
#include "app/measures/recording_measures.hpp"

namespace keyscope::figures {
namespace {

using measures::HeadMeasures;

struct Reading {
  const char* id;
  const char* label;
  Colour colour;
  Marker marker;
  std::optional<double> HeadMeasures::*value;
};

constexpr std::array kReadings{
    Reading{"per_query", "attention per query that could see the key", kBlue, Marker::kDisc,
            &HeadMeasures::spearman},
    Reading{"total", "all attention received", kOrange, Marker::kSquare, &HeadMeasures::spearman_total},
    Reading{"given_position", "per query, position held fixed", kGreen, Marker::kTriangle,
            &HeadMeasures::spearman_given_position}};
constexpr double kBeside = 0.18;  // readings of one layer stand side by side

void add_layer(SpreadSeries& series, double x, const std::vector<double>& values) {
  if (values.empty()) return;
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation =
      values.size() > 1 ? std::sqrt(squares / static_cast<double>(values.size() - 1)) : 0;
  series.add(x, mean - deviation, mean, mean + deviation);
}

LineSeries zero_line(const recording::RecordingInfo& info) {
  LineSeries line;
  line.id = "zero";
  line.colour = kGrey;
  line.dashed = true;
  line.x = {static_cast<float>(info.layers.front()) - 0.5F, static_cast<float>(info.layers.back()) + 0.5F};
  line.y = {0, 0};
  return line;
}

}  // namespace

Figure rank_correlation_figure(const recording::Recording& recording, int run) {
  const auto info = recording.info();
  require_run(*info, run);
  require_keys(*info);
  const auto& about = info->runs[static_cast<std::size_t>(run)];
  const auto heads = measures::measure_heads(recording, run);

  Panel panel;
  panel.id = "rank_correlation";
  panel.x = {"layer", "", {}, true};
  panel.y.label = "Spearman's ρ";
  panel.note = fmt::format("mean over {} KV head{}, one standard deviation to either side",
                           info->model.n_kv_heads, info->model.n_kv_heads == 1 ? "" : "s");
  panel.lines.push_back(zero_line(*info));
  for (std::size_t r = 0; r < kReadings.size(); ++r) {
    const Reading& reading = kReadings.at(r);
    std::map<int, std::vector<double>> layers;
    for (const HeadMeasures& head : heads)
      if (const auto& value = head.*reading.value) layers[head.layer].push_back(*value);
    SpreadSeries series(reading.id, reading.label, reading.colour, reading.marker, 5);
    for (const auto& [layer, values] : layers) add_layer(series, layer + kBeside * (double(r) - 1), values);
    std::move(series).put_into(panel);
  }
  Figure figure;
  figure.name = "rank-correlation";
  figure.title = "Do keys unlike the rest receive the most attention?";
  figure.caption = describe_run(*info, about);
  figure.view.runs = {about.plan.name};
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::figures
