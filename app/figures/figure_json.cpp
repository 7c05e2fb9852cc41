#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/figure.hpp"
#include "base/errors.hpp"
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
Enum value_of(const std::array<std::string_view, N>& names, const std::string& name) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  throw InvalidInput(fmt::format("'{}' is not known here", name));
}

// An integer of the file: what does not fit is refused, and becomes no other.
template <std::signed_integral Int>
Int integer_in(const nlohmann::json& from) {
  const auto integer = json_integer<Int>(from);
  if (!integer) throw InvalidInput(fmt::format("{} is no integer here", shown_value(from)));
  return *integer;
}

std::string colour_to_text(Colour colour) {
  return fmt::format("#{:02X}{:02X}{:02X}", colour.r, colour.g, colour.b);
}

Colour colour_from_text(const std::string& text) {
  const bool hex = text.size() == 7 && text[0] == '#' &&
                   text.find_first_not_of("0123456789abcdefABCDEF", 1) == std::string::npos;
  if (!hex) throw InvalidInput(fmt::format("'{}' is no colour; expected #RRGGBB", text));
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

Axis axis_from_json(const nlohmann::json& from) {
  Axis axis{from.at("label"), from.at("units")};
  if (from.contains("categories")) axis.categories = from["categories"];
  if (from.contains("counted")) axis.counted = from["counted"];
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

PointSeries points_from_json(const nlohmann::json& from) {
  PointSeries series;
  series.id = from.at("id");
  series.label = from.at("label");
  series.colour = colour_from_text(from.at("colour"));
  series.marker = value_of<Marker>(kMarkers, from.at("marker"));
  series.size_px = from.at("size_px");
  if (!(series.size_px > 0 && series.size_px <= 100))
    throw InvalidInput(fmt::format("markers of {} pixels; expected up to 100", series.size_px));
  if (from.contains("faded")) series.faded = from["faded"];
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

LineSeries line_from_json(const nlohmann::json& from) {
  LineSeries series;
  series.id = from.at("id");
  series.label = from.at("label");
  series.colour = colour_from_text(from.at("colour"));
  series.dashed = from.at("dashed");
  if (from.contains("marker")) series.marker = value_of<Marker>(kMarkers, from["marker"]);
  return series;
}

nlohmann::json band_to_json(const BandSeries& series) {
  return {{"id", series.id}, {"label", series.label}, {"colour", colour_to_text(series.colour)}};
}

BandSeries band_from_json(const nlohmann::json& from) {
  BandSeries series;
  series.id = from.at("id");
  series.label = from.at("label");
  series.colour = colour_from_text(from.at("colour"));
  return series;
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

void scale_from_json(const nlohmann::json& from, ColourScale& scale) {
  scale.id = from.at("id");
  scale.long_name = from.at("long_name");
  scale.units = from.at("units");
  scale.colour_map = value_of<ColourMap>(kColourMaps, from.at("colour_map"));
  scale.low = from.at("low");
  scale.high = from.at("high");
  scale.logarithmic = from.at("logarithmic");
  if (from.contains("categories")) scale.categories = from["categories"];
  if (from.contains("category_colours"))
    for (const auto& colour : from["category_colours"])
      scale.category_colours.push_back(colour_from_text(colour));
}

nlohmann::json heatmap_to_json(const Heatmap& heatmap) {
  nlohmann::json to = scale_to_json(heatmap);
  to["x"] = {heatmap.x_first, heatmap.x_step, heatmap.x_end};
  to["y"] = {heatmap.y_first, heatmap.y_step, heatmap.y_end};
  to["decimals"] = heatmap.decimals;
  to["reduction"] = heatmap.reduction;
  return to;
}

Heatmap heatmap_from_json(const nlohmann::json& from) {
  Heatmap heatmap;
  scale_from_json(from, heatmap);
  heatmap.x_first = from.at("x").at(0), heatmap.x_step = from.at("x").at(1),
  heatmap.x_end = from.at("x").at(2);
  heatmap.y_first = from.at("y").at(0), heatmap.y_step = from.at("y").at(1),
  heatmap.y_end = from.at("y").at(2);
  heatmap.reduction = from.at("reduction");
  if (from.contains("decimals")) heatmap.decimals = integer_in<int>(from["decimals"]);
  if (heatmap.decimals > 9)
    throw InvalidInput(
        fmt::format("{} decimals in the cells of a heatmap; expected at most 9", heatmap.decimals));
  if (!(heatmap.x_step > 0) || !(heatmap.y_step > 0)) throw InvalidInput("cells of a heatmap without width");
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

Panel panel_from_json(const nlohmann::json& from) {
  Panel panel;
  panel.id = from.at("id");
  panel.title = from.at("title");
  panel.note = from.at("note");
  panel.x = axis_from_json(from.at("x"));
  panel.y = axis_from_json(from.at("y"));
  panel.z = axis_from_json(from.at("z"));
  panel.equal_aspect = from.at("equal_aspect");
  panel.legend = from.at("legend");
  for (const nlohmann::json& series : from.at("points")) panel.points.push_back(points_from_json(series));
  for (const nlohmann::json& series : from.at("lines")) panel.lines.push_back(line_from_json(series));
  if (from.contains("bands"))
    for (const nlohmann::json& series : from["bands"]) panel.bands.push_back(band_from_json(series));
  if (from.contains("heatmap")) panel.heatmap = heatmap_from_json(from["heatmap"]);
  if (from.contains("scale")) scale_from_json(from["scale"], panel.scale.emplace());
  // What stands where is in datasets.
  if (const bool rows = from.value("ordered_rows", false); rows || from.value("ordered", false))
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

FigureView view_from_json(const nlohmann::json& from) {
  return {from.at("runs"),
          integer_in<int>(from.at("layer")),
          integer_in<int>(from.at("kv_head")),
          integer_in<int>(from.at("query_head")),
          integer_in<std::int64_t>(from.at("block")),
          integer_in<int>(from.at("components")),
          from.value("projection", std::string()),
          from.value("colour", std::string())};
}

nlohmann::json multiples_to_json(const SmallMultiples& multiples) {
  return {{"row_label", multiples.row_label},
          {"column_label", multiples.column_label},
          {"rows", multiples.rows},
          {"columns", multiples.columns}};
}

SmallMultiples multiples_from_json(const nlohmann::json& from, std::size_t n_panels) {
  SmallMultiples multiples{from.at("row_label"), from.at("column_label"), from.at("rows"),
                           from.at("columns")};
  if (multiples.rows.size() * multiples.columns.size() != n_panels)
    throw InvalidInput(fmt::format("{} rows of {} small multiples; expected one for each of {} panels",
                                   multiples.rows.size(), multiples.columns.size(), n_panels));
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

Figure figure_from_json(const nlohmann::json& from) {
  Figure figure;
  figure.name = from.at("name");
  figure.title = from.at("title");
  figure.caption = from.at("caption");
  figure.columns = integer_in<int>(from.at("columns"));
  figure.shared_ranges = from.at("shared_ranges");
  figure.view = view_from_json(from.at("view"));
  if (from.at("panels").size() > kMostPanels)
    throw InvalidInput(fmt::format("{} panels; expected at most {}", from.at("panels").size(), kMostPanels));
  for (const nlohmann::json& panel : from.at("panels")) figure.panels.push_back(panel_from_json(panel));
  if (from.contains("multiples"))
    figure.multiples = multiples_from_json(from["multiples"], figure.panels.size());
  return figure;
}

}  // namespace keyscope::figures
