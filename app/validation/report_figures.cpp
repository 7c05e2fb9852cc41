#include "app/validation/report_figures.hpp"

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "app/figures/policy_look.hpp"
#include "app/figures/spread.hpp"

namespace keyscope::validation {
namespace {

using figures::Colour;
using figures::Figure;
using figures::Marker;
using figures::Panel;
using figures::SpreadSeries;

constexpr float kMarkSize = 6;
constexpr double kStep = 0.18;  // between the series of one layer, of the distance between two layers

// One quantity as it is drawn over the layers.
struct LayerSeries {
  std::string_view quantity;
  const char* label;
  Colour colour;
  Marker marker;
};

std::string caption_of(const Report& report) {
  return fmt::format("{}: {}, {}; means over prompts with {:.0f} % bootstrap intervals",
                     report.settings.model.name, describe_extent(report), describe_eviction(report),
                     100 * report.bootstrap.confidence);
}

// A reference to see signs by, under everything else.
figures::LineSeries zero_line(double first, double last) {
  figures::LineSeries line;
  line.id = "zero";
  line.colour = figures::kGrey;
  line.dashed = true;
  line.x = {static_cast<float>(first), static_cast<float>(last)};
  line.y = {0, 0};
  return line;
}

void add(SpreadSeries& series, double x, const SummaryRow* row) {
  if (row != nullptr) series.add(x, row->mean.low, row->mean.mean, row->mean.high);
}

Figure layer_figure(const Report& report, std::string name, std::string title, figures::Axis y,
                    std::initializer_list<LayerSeries> all) {
  Panel panel;
  panel.id = name;
  panel.x = {"layer", "", {}, true};
  panel.y = std::move(y);
  panel.lines.push_back(zero_line(report.layers.front() - 0.5, report.layers.back() + 0.5));
  double offset = -kStep * (static_cast<double>(all.size()) - 1) / 2;
  for (const LayerSeries& one : all) {
    SpreadSeries series(std::string(one.quantity), one.label, one.colour, one.marker, kMarkSize);
    for (const int layer : report.layers)
      add(series, layer + offset, find_row(report.summary, one.quantity, "none", layer));
    std::move(series).put_into(panel);
    offset += kStep;
  }
  Figure figure;
  figure.name = std::move(name);
  figure.title = std::move(title);
  figure.caption = caption_of(report);
  figure.view.runs = {"none"};
  figure.panels.push_back(std::move(panel));
  return figure;
}

Panel policy_panel(const Report& report, std::string_view id) {
  const Quantity& measured = quantity(id);
  Panel panel;
  panel.id = std::string(id);
  panel.title = std::string(measured.title);
  panel.y = {std::string(measured.units.empty() ? measured.title : "mean"), std::string(measured.units)};
  panel.legend = false;
  figures::PolicyLooks looks;
  for (const std::string& run : report.runs) {
    if (run == "none") continue;
    const auto look = looks.next(run);
    SpreadSeries series(run, run, look.colour, look.marker, kMarkSize);
    add(series, static_cast<double>(panel.x.categories.size()), find_row(report.summary, id, run));
    panel.x.categories.push_back(run);
    std::move(series).put_into(panel);
  }
  return panel;
}

Figure policy_figure(const Report& report) {
  Figure figure;
  figure.name = "policies";
  figure.title = "What eviction leaves, by policy";
  figure.caption = caption_of(report);
  figure.columns = 2;
  for (const std::string_view id : {"log_volume_nats", "attention_mass_kept", "output_error", "kl_nats"})
    figure.panels.push_back(policy_panel(report, id));
  for (const std::string& run : report.runs)
    if (run != "none") figure.view.runs.push_back(run);
  return figure;
}

}  // namespace

std::vector<Figure> report_figures(const Report& report) {
  return {
      layer_figure(
          report, "correlation-by-layer", "Unlike keys and attention, by layer", {"rank correlation ρ", ""},
          {{"spearman", "attention per query", figures::kBlue, Marker::kDisc},
           {"spearman_total", "summed attention", figures::kOrange, Marker::kSquare},
           {"spearman_given_position", "per query, given position", figures::kGreen, Marker::kDiamond}}),
      layer_figure(report, "cosines-by-layer", "Keys and queries, by layer", {"cosine", ""},
                   {{"key_query_mean_cosine", "mean key and mean query", figures::kBlue, Marker::kDisc},
                    {"top_key_query_cosine", "top KeyDiff key and mean query", figures::kVermillion,
                     Marker::kTriangle},
                    {"mean_key_cosine", "keys and mean key", figures::kGrey, Marker::kSquare}}),
      policy_figure(report)};
}

}  // namespace keyscope::validation
