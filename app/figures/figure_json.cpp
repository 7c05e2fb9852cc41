#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/figures/figure.hpp"
#include "base/json.hpp"

namespace keyscope::figures {
namespace {

constexpr std::array<std::string_view, 13> kMarkers{
    "disc",          "ring", "diamond",     "cross", "triangle",           "square",
    "down_triangle", "plus", "open_square", "star",  "open_down_triangle", "open_diamond",
    "circle"};
constexpr std::array<std::string_view, 2> kColourMaps{"viridis", "diverging"};

template <typename Enum, std::size_t N>
std::string name_of(const std::array<std::string_view, N>& names, Enum value) {
  return std::string(names.at(static_cast<std::size_t>(value)));
}

template <typename Enum, std::size_t N>
Enum value_of(const std::array<std::string_view, N>& names, const JsonField& from) {
  const std::string name = from.string();
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  from.fail(shown(name), fmt::format("one of {}", fmt::join(names, ", ")));
}

int int_in(const JsonField& from) {
  return static_cast<int>(from.integer(std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}

float float_in(const JsonField& from) {
  const double number = from.number();
  if (std::abs(number) > static_cast<double>(std::numeric_limits<float>::max()))
    from.fail_type("a number of single precision");
  return static_cast<float>(number);
}

std::vector<std::string> texts_in(const JsonField& from) {
  std::vector<std::string> texts;
  from.for_each([&](const JsonField& text) { texts.push_back(text.string()); });
  return texts;
}

std::string colour_to_text(Colour colour) {
  return fmt::format("#{:02X}{:02X}{:02X}", colour.r, colour.g, colour.b);
}

Colour colour_from_json(const JsonField& from) {
  const std::string text = from.string();
  const bool hex = text.size() == 7 && text[0] == '#' &&
                   text.find_first_not_of("0123456789abcdefABCDEF", 1) == std::string::npos;
  if (!hex) from.fail(shown(text), "a colour, #RRGGBB");
  const unsigned long value = std::stoul(text.substr(1), nullptr, 16);
  return {static_cast<std::uint8_t>(value >> 16), static_cast<std::uint8_t>(value >> 8 & 0xFF),
          static_cast<std::uint8_t>(value & 0xFF)};
}

nlohmann::json axis_to_json(const Axis& axis) {
  nlohmann::json to{{"label", axis.label}, {"units", axis.units}};
  if (!axis.categories.empty()) to["categories"] = axis.categories;
  if (axis.counted) to["counted"] = true;
  return to;
}

Axis axis_from_json(const JsonField& from) {
  Axis axis{from.member("label").string(), from.member("units").string()};
  if (const auto categories = from.optional("categories")) axis.categories = texts_in(*categories);
  axis.counted = from.boolean_or("counted", false);
  return axis;
}

nlohmann::json points_to_json(const PointSeries& series) {
  nlohmann::json to{{"id", series.id},
                    {"label", series.label},
                    {"colour", colour_to_text(series.colour)},
                    {"marker", name_of(kMarkers, series.marker)},
                    {"size_px", series.size_px}};
  if (series.faded) to["faded"] = true;
  return to;
}

// What series of every kind have.
template <typename Series>
Series series_from_json(const JsonField& from) {
  Series series;
  series.id = from.member("id").string();
  series.label = from.member("label").string();
  series.colour = colour_from_json(from.member("colour"));
  return series;
}

PointSeries points_from_json(const JsonField& from) {
  auto series = series_from_json<PointSeries>(from);
  series.marker = value_of<Marker>(kMarkers, from.member("marker"));
  const JsonField size = from.member("size_px");
  series.size_px = float_in(size);
  if (!(series.size_px > 0 && series.size_px <= 100)) size.fail_type("more than 0 pixels, and up to 100");
  series.faded = from.boolean_or("faded", false);
  return series;
}

nlohmann::json line_to_json(const LineSeries& series) {
  nlohmann::json to{{"id", series.id},
                    {"label", series.label},
                    {"colour", colour_to_text(series.colour)},
                    {"dashed", series.dashed}};
  if (series.marker) to["marker"] = name_of(kMarkers, *series.marker);
  return to;
}

LineSeries line_from_json(const JsonField& from) {
  auto series = series_from_json<LineSeries>(from);
  series.dashed = from.member("dashed").boolean();
  if (const auto marker = from.optional("marker")) series.marker = value_of<Marker>(kMarkers, *marker);
  return series;
}

nlohmann::json band_to_json(const BandSeries& series) {
  return {{"id", series.id}, {"label", series.label}, {"colour", colour_to_text(series.colour)}};
}

nlohmann::json scale_to_json(const ColourScale& scale) {
  nlohmann::json to{{"id", scale.id},
                    {"long_name", scale.long_name},
                    {"units", scale.units},
                    {"colour_map", name_of(kColourMaps, scale.colour_map)},
                    {"low", scale.low},
                    {"high", scale.high},
                    {"logarithmic", scale.logarithmic}};
  if (!scale.categories.empty()) to["categories"] = scale.categories;
  for (const Colour& colour : scale.category_colours)
    to["category_colours"].push_back(colour_to_text(colour));
  return to;
}

void scale_from_json(const JsonField& from, ColourScale& scale) {
  scale.id = from.member("id").string();
  scale.long_name = from.member("long_name").string();
  scale.units = from.member("units").string();
  scale.colour_map = value_of<ColourMap>(kColourMaps, from.member("colour_map"));
  scale.low = float_in(from.member("low"));
  scale.high = float_in(from.member("high"));
  scale.logarithmic = from.member("logarithmic").boolean();
  if (const auto categories = from.optional("categories")) scale.categories = texts_in(*categories);
  if (const auto colours = from.optional("category_colours"))
    colours->for_each(
        [&](const JsonField& colour) { scale.category_colours.push_back(colour_from_json(colour)); });
}

nlohmann::json heatmap_to_json(const Heatmap& heatmap) {
  nlohmann::json to = scale_to_json(heatmap);
  to["x"] = {heatmap.x_first, heatmap.x_step, heatmap.x_end};
  to["y"] = {heatmap.y_first, heatmap.y_step, heatmap.y_end};
  to["decimals"] = heatmap.decimals;
  to["reduction"] = heatmap.reduction;
  return to;
}

// Where an axis of cells begins, the width of one, and where it ends.
std::array<double, 3> cells_from_json(const JsonField& from) {
  std::array<double, 3> numbers{};
  std::size_t n = 0;
  from.for_each([&](const JsonField& number) {
    if (n < numbers.size()) numbers[n] = number.number();
    ++n;
  });
  if (n != numbers.size()) from.fail_type("three numbers");
  if (!(numbers[1] > 0)) from.fail(fmt::format("cells of width {}", numbers[1]), "a width above 0");
  return numbers;
}

Heatmap heatmap_from_json(const JsonField& from) {
  Heatmap heatmap;
  scale_from_json(from, heatmap);
  const auto x = cells_from_json(from.member("x")), y = cells_from_json(from.member("y"));
  heatmap.x_first = x[0], heatmap.x_step = x[1], heatmap.x_end = x[2];
  heatmap.y_first = y[0], heatmap.y_step = y[1], heatmap.y_end = y[2];
  heatmap.reduction = from.member("reduction").string();
  constexpr int kMostDecimals = 9;
  if (const auto decimals = from.optional("decimals"))
    heatmap.decimals = static_cast<int>(decimals->integer(std::numeric_limits<int>::min(), kMostDecimals));
  return heatmap;
}

nlohmann::json panel_to_json(const Panel& panel) {
  nlohmann::json to{{"id", panel.id},
                    {"title", panel.title},
                    {"note", panel.note},
                    {"x", axis_to_json(panel.x)},
                    {"y", axis_to_json(panel.y)},
                    {"z", axis_to_json(panel.z)},
                    {"equal_aspect", panel.equal_aspect},
                    {"legend", panel.legend},
                    {"points", nlohmann::json::array()},
                    {"lines", nlohmann::json::array()}};
  for (const PointSeries& series : panel.points) to["points"].push_back(points_to_json(series));
  for (const LineSeries& series : panel.lines) to["lines"].push_back(line_to_json(series));
  for (const BandSeries& series : panel.bands) to["bands"].push_back(band_to_json(series));
  if (panel.heatmap) to["heatmap"] = heatmap_to_json(*panel.heatmap);
  if (panel.order) to[panel.order->rows_only ? "ordered_rows" : "ordered"] = true;
  if (panel.scale) to["scale"] = scale_to_json(*panel.scale);
  return to;
}

Panel panel_from_json(const JsonField& from) {
  Panel panel;
  panel.id = from.member("id").string();
  panel.title = from.member("title").string();
  panel.note = from.member("note").string();
  panel.x = axis_from_json(from.member("x"));
  panel.y = axis_from_json(from.member("y"));
  panel.z = axis_from_json(from.member("z"));
  panel.equal_aspect = from.member("equal_aspect").boolean();
  panel.legend = from.member("legend").boolean();
  from.member("points").for_each(
      [&](const JsonField& series) { panel.points.push_back(points_from_json(series)); });
  from.member("lines").for_each(
      [&](const JsonField& series) { panel.lines.push_back(line_from_json(series)); });
  if (const auto bands = from.optional("bands"))
    bands->for_each(
        [&](const JsonField& series) { panel.bands.push_back(series_from_json<BandSeries>(series)); });
  if (const auto heatmap = from.optional("heatmap")) panel.heatmap = heatmap_from_json(*heatmap);
  if (const auto scale = from.optional("scale")) scale_from_json(*scale, panel.scale.emplace());
  // What stands where is in datasets.
  if (const bool rows = from.boolean_or("ordered_rows", false); rows || from.boolean_or("ordered", false))
    panel.order.emplace().rows_only = rows;
  return panel;
}

nlohmann::json view_to_json(const FigureView& view) {
  nlohmann::json to{{"runs", view.runs},       {"layer", view.layer},
                    {"kv_head", view.kv_head}, {"query_head", view.query_head},
                    {"block", view.block},     {"components", view.components}};
  if (!view.projection.empty()) to["projection"] = view.projection;
  if (!view.colour.empty()) to["colour"] = view.colour;
  return to;
}

FigureView view_from_json(const JsonField& from) {
  return {texts_in(from.member("runs")),
          int_in(from.member("layer")),
          int_in(from.member("kv_head")),
          int_in(from.member("query_head")),
          from.member("block").integer(std::numeric_limits<std::int64_t>::min(),
                                       std::numeric_limits<std::int64_t>::max()),
          int_in(from.member("components")),
          from.string_or("projection", ""),
          from.string_or("colour", "")};
}

nlohmann::json multiples_to_json(const SmallMultiples& multiples) {
  return {{"row_label", multiples.row_label},
          {"column_label", multiples.column_label},
          {"rows", multiples.rows},
          {"columns", multiples.columns}};
}

SmallMultiples multiples_from_json(const JsonField& from, std::size_t n_panels) {
  SmallMultiples multiples{from.member("row_label").string(), from.member("column_label").string(),
                           texts_in(from.member("rows")), texts_in(from.member("columns"))};
  if (multiples.rows.size() * multiples.columns.size() != n_panels)
    from.fail(fmt::format("{} rows of {} small multiples", multiples.rows.size(), multiples.columns.size()),
              fmt::format("one for each of {} panels", n_panels));
  return multiples;
}

}  // namespace

nlohmann::json figure_to_json(const Figure& figure) {
  nlohmann::json to{{"name", figure.name},
                    {"title", figure.title},
                    {"caption", figure.caption},
                    {"columns", figure.columns},
                    {"shared_ranges", figure.shared_ranges},
                    {"view", view_to_json(figure.view)},
                    {"panels", nlohmann::json::array()}};
  for (const Panel& panel : figure.panels) to["panels"].push_back(panel_to_json(panel));
  if (figure.multiples) to["multiples"] = multiples_to_json(*figure.multiples);
  return to;
}

Figure figure_from_json(const JsonField& from) {
  Figure figure;
  figure.name = from.member("name").string();
  figure.title = from.member("title").string();
  figure.caption = from.member("caption").string();
  figure.columns = int_in(from.member("columns"));
  figure.shared_ranges = from.member("shared_ranges").boolean();
  figure.view = view_from_json(from.member("view"));
  const JsonField panels = from.member("panels");
  panels.for_each([&](const JsonField& panel) {
    if (figure.panels.size() == kMostPanels) panels.fail_type(fmt::format("at most {} panels", kMostPanels));
    figure.panels.push_back(panel_from_json(panel));
  });
  if (const auto multiples = from.optional("multiples"))
    figure.multiples = multiples_from_json(*multiples, figure.panels.size());
  return figure;
}

}  // namespace keyscope::figures
