#include "app/figures/nexus_panel.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <hdf5_hl.h>

#include "app/figures/nexus.hpp"
#include "base/errors.hpp"

namespace keyscope::figures {

namespace {

using recording::hdf5::Dataset;
using recording::hdf5::DatasetOptions;
using recording::hdf5::ElementType;
using recording::hdf5::Group;

constexpr hsize_t kMatrixChunk = 256;
constexpr Eigen::Index kMostHeatmapCells = 1 << 28;

// A dimension scale that plots of other programs, netCDF's among them, find by the signal.
void attach_scale(const Dataset& signal, const Dataset& scale, unsigned dimension, const char* name) {
  const recording::hdf5::Lock lock;
  recording::hdf5::check(H5DSset_scale(scale.id(), name), scale.where(), "make a dimension scale");
  recording::hdf5::check(H5DSattach_scale(signal.id(), scale.id(), dimension), scale.where(),
                         "attach the dimension scale");
}

void set_plot(Group& group, const std::string& signal, const std::vector<std::string>& axes,
              const std::vector<std::int64_t>& indices) {
  group.set_text("signal", signal);
  group.set_texts("axes", axes);
  for (std::size_t i = 0; i < axes.size(); ++i) group.set_integer(axes[i] + "_indices", indices[i]);
}

bool is_retained(const PointSeries& series) { return series.id == "retained"; }
bool is_evicted(const PointSeries& series) { return series.id == "evicted"; }

// The series that make up the plot itself; the others lie beside it under their own names.
std::vector<std::size_t> plotted_series(const Panel& panel) {
  std::vector<std::size_t> keys, tokens;
  for (std::size_t i = 0; i < panel.points.size(); ++i) {
    if (is_retained(panel.points[i]) || is_evicted(panel.points[i])) keys.push_back(i);
    if (!panel.points[i].token.empty()) tokens.push_back(i);
  }
  if (!keys.empty()) return keys;
  if (!tokens.empty()) return tokens;
  return panel.points.empty() ? std::vector<std::size_t>{} : std::vector<std::size_t>{0};
}

bool splits_by_retention(const Panel& panel) {
  return std::ranges::any_of(panel.points, is_retained) || std::ranges::any_of(panel.points, is_evicted);
}

// One point of the plot: which series, and where in it.
struct Place {
  std::size_t series = 0, at = 0;
};

std::vector<Place> plotted_points(const Panel& panel) {
  std::vector<Place> places;
  for (const std::size_t s : plotted_series(panel))
    for (std::size_t i = 0; i < panel.points[s].x.size(); ++i) places.push_back({s, i});
  if (splits_by_retention(panel))
    std::ranges::stable_sort(places, std::less<>(), [&](const Place& place) {
      const auto& token = panel.points[place.series].token;
      return place.at < token.size() ? token[place.at] : -1;
    });
  return places;
}

std::vector<float> gather(const Panel& panel, const std::vector<Place>& places,
                          std::vector<float> PointSeries::*axis) {
  std::vector<float> values;
  values.reserve(places.size());
  for (const Place& place : places) values.push_back((panel.points[place.series].*axis).at(place.at));
  return values;
}

void write_beside(Group& group, const Panel& panel, const PointSeries& series) {
  const std::string name = nexus_name(series.id);
  write_list(group, name + "_x", series.x, series.label + ": " + panel.x.label, panel.x.units);
  write_list(group, name + "_y", series.y, series.label + ": " + panel.y.label, panel.y.units);
  if (panel.is_3d())
    write_list(group, name + "_z", series.z, series.label + ": " + panel.z.label, panel.z.units);
  if (!series.token.empty())
    write_list(group, name + "_token", series.token, series.label + ": token position");
}

// What the plotted points are coloured by; NaN for those of series that have one colour.
void write_values(Group& group, const Panel& panel, const ColourScale& scale,
                  const std::vector<Place>& places) {
  std::vector<float> values;
  values.reserve(places.size());
  for (const Place& place : places) {
    const auto& of_series = panel.points[place.series].value;
    values.push_back(place.at < of_series.size() ? of_series[place.at] : std::nanf(""));
  }
  Dataset dataset = write_list(group, nexus_name(scale.id), values, scale.long_name, scale.units);
  if (!scale.categories.empty()) dataset.set_texts("categories", scale.categories);
}

// An axis without a name is one of categories.
std::string long_name_of(const Axis& axis) {
  return axis.label.empty() && !axis.categories.empty() ? "place in `categories`" : axis.label;
}

// Where points or cells lie on an axis. On one of categories the nearest whole number is a place in
// `categories`.
template <typename T>
Dataset write_coordinates(Group& group, const std::string& name, const std::vector<T>& values,
                          const Axis& axis) {
  const bool named = !axis.categories.empty();
  Dataset dataset = write_list(group, name, values, long_name_of(axis), axis.units);
  if (named) dataset.set_texts("categories", axis.categories);
  return dataset;
}

void write_scatter(Group& group, const Panel& panel) {
  const std::vector<Place> places = plotted_points(panel);
  const Dataset x = write_coordinates(group, "x", gather(panel, places, &PointSeries::x), panel.x);
  const Dataset y = write_coordinates(group, "y", gather(panel, places, &PointSeries::y), panel.y);
  if (panel.is_3d()) write_coordinates(group, "z", gather(panel, places, &PointSeries::z), panel.z);
  std::vector<std::int32_t> token;
  std::vector<std::uint8_t> colour;
  const bool retention = splits_by_retention(panel);
  for (const Place& place : places) {
    const PointSeries& series = panel.points[place.series];
    token.push_back(place.at < series.token.size() ? series.token[place.at] : -1);
    colour.push_back(retention ? is_retained(series) : static_cast<std::uint8_t>(place.series));
  }
  const Dataset signal = retention ? write_list(group, "retained", colour, "retained (1) or evicted (0)")
                                   : write_list(group, "series", colour, "which series the point belongs to");
  write_list(group, "token", token, "token position; -1: the point is no token");
  if (panel.scale) write_values(group, panel, *panel.scale, places);
  attach_scale(signal, x, 0, "x");
  attach_scale(signal, y, 0, "y");
  set_plot(group, retention ? "retained" : "series", {"x", "y"}, {0, 0});
  const auto plotted = plotted_series(panel);
  for (std::size_t s = 0; s < panel.points.size(); ++s)
    if (std::ranges::find(plotted, s) == plotted.end()) write_beside(group, panel, panel.points[s]);
}

// Centres of the cells along one axis, and the edges between them; the last cell may be narrower.
void write_cells(Group& group, const Dataset& signal, const std::string& name, const Axis& axis, double first,
                 double step, double last, Eigen::Index n_cells, unsigned dimension) {
  std::vector<double> edges, centres;
  for (Eigen::Index i = 0; i <= n_cells; ++i)
    edges.push_back(std::min(first + step * static_cast<double>(i), last));
  for (Eigen::Index i = 0; i < n_cells; ++i) centres.push_back((edges[i] + edges[i + 1]) / 2);
  const Dataset scale = write_coordinates(group, name, centres, axis);
  write_list(group, name + "_edges", edges, long_name_of(axis) + ": edges of the cells", axis.units);
  attach_scale(signal, scale, dimension, name.c_str());
}

void write_heatmap(Group& group, const Panel& panel, const Heatmap& heatmap) {
  const std::string name = nexus_name(heatmap.id);
  const Eigen::Index rows = heatmap.values.rows(), columns = heatmap.values.cols();
  DatasetOptions options;
  options.chunk = {kMatrixChunk, kMatrixChunk};
  options.max_shape = {H5S_UNLIMITED, H5S_UNLIMITED};
  options.shuffle = true;
  options.gzip = 4;
  options.fill = std::nan("");
  options.cache_bytes = kMatrixChunk * (columns + kMatrixChunk) * sizeof(float);
  Dataset signal = group.create_dataset(name, ElementType::kFloat32,
                                        {static_cast<hsize_t>(rows), static_cast<hsize_t>(columns)}, options);
  signal.write(std::span<const float>(heatmap.values.data(), heatmap.values.size()));
  signal.set_text("long_name", heatmap.long_name);
  signal.set_text("units", heatmap.units);
  signal.set_text("interpretation", "image");
  group.set_text("interpretation", "image");
  if (heatmap.logarithmic) group.set_text("SILX_style", R"({"signal_scale_type": "log"})");
  write_cells(group, signal, "y", panel.y, heatmap.y_first, heatmap.y_step, heatmap.y_last(), rows, 0);
  write_cells(group, signal, "x", panel.x, heatmap.x_first, heatmap.x_step, heatmap.x_last(), columns, 1);
  set_plot(group, name, {"y", "x"}, {0, 1});
  if (panel.order) write_order(group, *panel.order);
}

void write_lines(Group& group, const Panel& panel, bool as_plot) {
  for (const LineSeries& line : panel.lines) {
    const std::string name = nexus_name(line.id);
    const Dataset x = write_list(group, name + "_x", line.x, panel.x.label, panel.x.units);
    Dataset y = write_list(group, name, line.y, line.label, panel.y.units);
    y.set_text("interpretation", "spectrum");
    attach_scale(y, x, 0, "x");
    if (as_plot && &line == &panel.lines.front()) set_plot(group, name, {name + "_x"}, {0});
  }
}

void write_bands(Group& group, const Panel& panel) {
  for (const BandSeries& band : panel.bands) {
    const std::string name = nexus_name(band.id);
    write_list(group, name + "_x", band.x, panel.x.label, panel.x.units);
    write_list(group, name + "_low", band.low, band.label + ": low end", panel.y.units);
    write_list(group, name + "_high", band.high, band.label + ": high end", panel.y.units);
  }
}

void read_scatter(const Group& group, Panel& panel) {
  const auto x = read_list<float>(group, "x");
  const auto y = read_list<float>(group, "y", x.size());
  const auto z = panel.is_3d() ? read_list<float>(group, "z", x.size()) : std::vector<float>();
  const auto token = read_list<std::int32_t>(group, "token", x.size());
  const auto on_scale =
      panel.scale ? read_list<float>(group, nexus_name(panel.scale->id), x.size()) : std::vector<float>();
  const bool retention = splits_by_retention(panel);
  const auto colour = read_list<std::uint8_t>(group, retention ? "retained" : "series", x.size());
  const auto find = [&](std::uint8_t value) -> PointSeries* {
    if (!retention) return value < panel.points.size() ? &panel.points[value] : nullptr;
    const auto found = std::ranges::find_if(panel.points, value != 0 ? is_retained : is_evicted);
    return found == panel.points.end() ? nullptr : &*found;
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    PointSeries* series = find(colour[i]);
    if (!series) throw FileError(fmt::format("{}: point {} belongs to no series", group.where(), i));
    series->x.push_back(x[i]);
    series->y.push_back(y[i]);
    if (panel.is_3d()) series->z.push_back(z[i]);
    if (token[i] >= 0) series->token.push_back(token[i]);
    if (panel.scale) series->value.push_back(on_scale[i]);
  }
}

void read_beside(const Group& group, const Panel& panel, PointSeries& series) {
  const std::string name = nexus_name(series.id);
  if (!group.has(name + "_x")) return;
  series.x = read_list<float>(group, name + "_x");
  series.y = read_list<float>(group, name + "_y", series.x.size());
  if (panel.is_3d()) series.z = read_list<float>(group, name + "_z", series.x.size());
  if (group.has(name + "_token"))
    series.token = read_list<std::int32_t>(group, name + "_token", series.x.size());
}

void read_heatmap(const Group& group, Heatmap& heatmap) {
  const Dataset signal = group.open_dataset(nexus_name(heatmap.id));
  if (signal.shape().size() != 2)
    throw FileError(fmt::format("{}: shape is {}; expected a matrix", signal.where(),
                                recording::hdf5::format_shape(signal.shape())));
  const auto rows = static_cast<Eigen::Index>(signal.shape()[0]),
             columns = static_cast<Eigen::Index>(signal.shape()[1]);
  if (rows > 0 && columns > kMostHeatmapCells / rows)
    throw FileError(fmt::format("{}: shape is {}, too large for a figure", signal.where(),
                                recording::hdf5::format_shape(signal.shape())));
  heatmap.values.resize(rows, columns);
  signal.read(std::span<float>(heatmap.values.data(), heatmap.values.size()), {0, 0}, signal.shape());
}

}  // namespace

std::string nexus_name(const std::string& text) {
  std::string name;
  for (const char c : text) name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' ? c : '_';
  return name.empty() ? "unnamed" : name;
}

void write_panel(Group& group, const Panel& panel, const std::string& title) {
  group.create_text("title", title);
  if (!panel.note.empty()) group.create_text("note", panel.note);
  if (!panel.explained_variance.empty())
    write_list(group, "explained_variance", panel.explained_variance,
               "share of the variance along each axis");
  if (panel.heatmap)
    write_heatmap(group, panel, *panel.heatmap);
  else if (!panel.points.empty() || panel.lines.empty())
    write_scatter(group, panel);
  write_lines(group, panel, !panel.heatmap && panel.points.empty());
  write_bands(group, panel);
}

void read_panel(const Group& group, Panel& panel) {
  if (group.has("explained_variance"))
    panel.explained_variance = read_list<double>(group, "explained_variance");
  if (panel.heatmap) {
    read_heatmap(group, *panel.heatmap);
    if (panel.order) {
      const bool rows_only = panel.order->rows_only;
      const auto& map = *panel.heatmap;
      *panel.order = read_order(group, std::llround(rows_only ? map.y_last() : map.x_last()));
      panel.order->rows_only = rows_only;
    }
  } else if (!panel.points.empty() || panel.lines.empty()) {
    for (PointSeries& series : panel.points) read_beside(group, panel, series);
    read_scatter(group, panel);
  }
  for (LineSeries& line : panel.lines) {
    line.x = read_list<float>(group, nexus_name(line.id) + "_x");
    line.y = read_list<float>(group, nexus_name(line.id), line.x.size());
  }
  for (BandSeries& band : panel.bands) {
    band.x = read_list<float>(group, nexus_name(band.id) + "_x");
    band.low = read_list<float>(group, nexus_name(band.id) + "_low", band.x.size());
    band.high = read_list<float>(group, nexus_name(band.id) + "_high", band.x.size());
  }
}

}  // namespace keyscope::figures
