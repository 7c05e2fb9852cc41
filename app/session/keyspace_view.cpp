#include "app/session/keyspace_view.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/keyspace_data.hpp"

namespace keyscope::session {

namespace {

using figures::KeyColour;
using figures::Marker;
using figures::PointSeries;
using figures::Projection;

constexpr float kMeanMarkerPx = 13;

PointSeries series_of(std::string id, figures::Colour colour, Marker marker) {
  PointSeries series;
  series.id = series.label = std::move(id);
  series.colour = colour;
  series.marker = marker;
  return series;
}

// Big enough to hit where there are few, small enough to show the cloud's shape where there are many.
float point_size_px(std::int64_t n_points) {
  if (n_points <= 600) return 8;
  if (n_points <= 3000) return 6.5F;
  return n_points <= 20000 ? 5 : 4;
}

// Appends one row of coordinates; false, and nothing, where it has no place.
bool add_point(PointSeries& series, const RowMatrixF& coordinates, Eigen::Index row, int dimensions) {
  for (int i = 0; i < dimensions; ++i)
    if (!std::isfinite(coordinates(row, i))) return false;
  series.x.push_back(coordinates(row, 0));
  series.y.push_back(coordinates(row, 1));
  if (dimensions == 3) series.z.push_back(coordinates(row, 2));
  return true;
}

std::string count_of(std::size_t n) { return format_count(static_cast<long long>(n)); }

void add_mean(figures::Panel& panel, const HeadPoints& points, const RowMatrixD& mean, std::int64_t block,
              Projection projection, PointSeries series) {
  if (block >= mean.rows()) return;
  const RowMatrixF row = mean.row(block).cast<float>();
  const RowMatrixF at =
      figures::place_rows(projection, *points.basis, points.mean_key.row(block).transpose(), row);
  if (!add_point(series, at, 0, figures::dimensions_of(projection))) return;
  series.size_px = kMeanMarkerPx;
  panel.points.push_back(std::move(series));
}

void add_queries(figures::Panel& panel, const RowMatrixF& queries, std::int64_t n_seen, int dimensions) {
  if (queries.rows() == 0) return;
  PointSeries series = series_of("queries", figures::kGrey, Marker::kCross);
  for (Eigen::Index row = 0; row < queries.rows(); ++row)
    if (add_point(series, queries, row, dimensions))
      series.token.push_back(static_cast<std::int32_t>(row % n_seen));
  series.label = fmt::format("queries ({})", count_of(series.x.size()));
  series.size_px = point_size_px(static_cast<std::int64_t>(series.x.size()));
  panel.points.push_back(std::move(series));
}

void add_keys(figures::Panel& panel, const HeadPoints& points, std::int64_t block,
              const RowMatrixF& coordinates, int dimensions, const figures::KeyValues& colours) {
  PointSeries evicted = series_of("evicted", figures::kOrange, Marker::kRing);
  PointSeries retained = series_of("retained", figures::kBlue, Marker::kDisc);
  const std::int64_t n_seen = points.seen[static_cast<std::size_t>(block)];
  for (std::int64_t token = 0; token < n_seen; ++token) {
    const auto at = static_cast<std::size_t>(token);
    const std::int32_t gone = points.trace.evicted_at[at];
    PointSeries& series = gone >= 0 && gone <= block ? evicted : retained;
    if (!add_point(series, coordinates, token, dimensions)) continue;
    series.token.push_back(static_cast<std::int32_t>(token));
    if (!colours.values.empty()) series.value.push_back(colours.values[at]);
  }
  if (!colours.values.empty()) panel.scale = colours.scale;
  const std::size_t n_shown = evicted.x.size() + retained.x.size();
  if (n_shown < static_cast<std::size_t>(n_seen))
    panel.note = fmt::format("showing {} of {} keys; the others are not finite", count_of(n_shown),
                             format_count(n_seen));
  for (PointSeries* series : {&evicted, &retained}) {
    series->label = fmt::format("{} ({})", series->id, count_of(series->x.size()));
    series->size_px = point_size_px(points.n_tokens);
    panel.points.push_back(std::move(*series));
  }
}

// How many of the keys have no value where not all of them do.
void note_values(figures::Panel& panel, const figures::KeyValues& colours) {
  const std::string note = figures::values_note(colours);
  if (!note.empty()) panel.note += (panel.note.empty() ? "" : "; ") + note;
}

// What of the look the recording does not hold, taken out of it.
std::string take_out(const recording::RecordingInfo& info, int run, figures::KeyspaceLook& look) {
  std::string why = figures::colour_refusal(info, run, look.colour);
  if (!why.empty()) look.colour = KeyColour::kDecision;
  if (look.queries && !info.queries) {
    look.queries = false;
    why += why.empty() ? "queries were not recorded" : "; queries were not recorded";
  }
  return why;
}

void include(Extent& extent, double x, double y) {
  extent.x_low = std::min(extent.x_low, x);
  extent.x_high = std::max(extent.x_high, x);
  extent.y_low = std::min(extent.y_low, y);
  extent.y_high = std::max(extent.y_high, y);
}

}  // namespace

figures::Panel keyspace_panel(const HeadPoints& points, std::int64_t block, const figures::KeyspaceLook& look,
                              const PictureParts& parts) {
  figures::Panel panel;
  panel.id = "keyspace";
  figures::set_axes(panel, look.projection, *points.basis);
  if (block < 0 || block >= points.n_blocks()) return panel;
  const int dimensions = figures::dimensions_of(look.projection);
  const std::int64_t n_seen = points.seen[static_cast<std::size_t>(block)];
  add_queries(panel, parts.queries, n_seen, dimensions);
  if (look.projection == Projection::kAnchor)
    add_keys(panel, points, block,
             figures::anchor_coordinates(points.keys.topRows(n_seen), points.mean_key.row(block).transpose()),
             dimensions, parts.colours);
  else
    add_keys(panel, points, block, points.coordinates, dimensions, parts.colours);
  note_values(panel, parts.colours);
  PointSeries anchor = series_of("anchor", figures::kGreen, Marker::kDiamond);
  anchor.label = "anchor (mean key)";
  add_mean(panel, points, points.mean_key, block, look.projection, std::move(anchor));
  PointSeries query = series_of("mean_query", figures::kPurple, Marker::kTriangle);
  query.label = "mean query";
  add_mean(panel, points, points.mean_query, block, look.projection, std::move(query));
  return panel;
}

bool asks_for_work(const figures::KeyspaceLook& look) {
  return look.projection == Projection::kAnchor || look.colour != KeyColour::kDecision || look.queries;
}

std::shared_ptr<const KeyspacePicture> make_picture(const recording::Recording& recording,
                                                    const recording::RecordingInfo& info,
                                                    std::shared_ptr<const HeadPoints> points,
                                                    const PictureKey& key, QueryCache& queries) {
  auto picture = std::make_shared<KeyspacePicture>();
  picture->key = key;
  picture->points = std::move(points);
  const HeadPoints& head = *picture->points;
  figures::KeyspaceLook look = key.look;
  picture->refusal = take_out(info, key.head.run, look);
  PictureParts parts;
  if (key.block >= 0 && key.block < head.n_blocks()) {
    const std::int64_t n_seen = head.seen[static_cast<std::size_t>(key.block)];
    if (look.queries) parts.queries = queries.place(recording, head, key.block, look.projection);
    if (look.colour != KeyColour::kDecision)
      parts.colours = figures::key_values(recording, info,
                                          {key.head.run, key.head.layer, key.head.kv_head, key.block, n_seen},
                                          look.colour, head.keys.topRows(n_seen), head.trace);
  }
  picture->panel = keyspace_panel(head, key.block, look, parts);
  return picture;
}

std::shared_ptr<const KeyspacePicture> make_picture_anyway(const recording::Recording& recording,
                                                           const recording::RecordingInfo& info,
                                                           std::shared_ptr<const HeadPoints> points,
                                                           const PictureKey& key, QueryCache& queries) {
  auto plain = std::make_shared<KeyspacePicture>();
  try {
    return make_picture(recording, info, points, key, queries);
  } catch (const std::exception& error) {
    plain->refusal = error.what();
  }
  plain->key = key;
  plain->panel = keyspace_panel(*points, key.block);
  plain->points = std::move(points);
  return plain;
}

Extent points_extent(const figures::Panel& panel) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  Extent extent{kFar, -kFar, kFar, -kFar};
  for (const PointSeries& series : panel.points)
    for (std::size_t i = 0; i < series.x.size(); ++i) include(extent, series.x[i], series.y[i]);
  return extent;
}

std::string look_options(const figures::KeyspaceLook& look) {
  std::string options;
  if (look.projection != Projection::kPca)
    options += fmt::format(" --projection {}", figures::id_of(look.projection));
  if (look.colour != KeyColour::kDecision)
    options += fmt::format(" --colour {}", figures::id_of(look.colour));
  if (look.queries) options += " --queries";
  return options;
}

namespace {

bool can_be_one(const MeantScale& a, const MeantScale& b) {
  return a.meaning == b.meaning && a.scale.id == b.scale.id && a.scale.units == b.scale.units &&
         a.scale.colour_map == b.scale.colour_map && a.scale.logarithmic == b.scale.logarithmic &&
         a.scale.categories == b.scale.categories;
}

}  // namespace

std::string meaning_of(const recording::RunPlan& plan, figures::KeyColour colour) {
  std::string meaning(figures::id_of(colour));
  if (colour != figures::KeyColour::kScore && colour != figures::KeyColour::kMargin) return meaning;
  return meaning + " by " + (plan.policy == "none" ? "keydiff" : plan.policy);
}

std::optional<figures::ColourScale> shared_scale(const std::vector<MeantScale>& scales) {
  if (scales.empty()) return std::nullopt;
  figures::ColourScale shared = scales.front().scale;
  for (const MeantScale& each : scales) {
    if (!can_be_one(scales.front(), each)) return std::nullopt;
    // Of the names, the shortest: what one run adds in brackets holds for it alone.
    if (each.scale.long_name.size() < shared.long_name.size()) shared.long_name = each.scale.long_name;
    shared.low = std::min(shared.low, each.scale.low);
    shared.high = std::max(shared.high, each.scale.high);
  }
  return shared;
}

SpaceBox space_box(const HeadPoints& points) {
  SpaceBox box;
  bool first = true;
  const RowMatrixF& places = points.coordinates;
  for (Eigen::Index row = 0; row < places.rows(); ++row) {
    if (!places.row(row).allFinite()) continue;
    for (Eigen::Index axis = 0; axis < 3; ++axis) {
      const double at = places(row, axis);
      double &low = box.low[static_cast<std::size_t>(axis)], &high = box.high[static_cast<std::size_t>(axis)];
      low = first ? at : std::min(low, at);
      high = first ? at : std::max(high, at);
    }
    first = false;
  }
  const auto centre = box.middle();
  for (Eigen::Index row = 0; row < places.rows(); ++row) {
    if (!places.row(row).allFinite()) continue;
    box.radius = std::max(box.radius, std::hypot(places(row, 0) - centre[0], places(row, 1) - centre[1],
                                                 places(row, 2) - centre[2]));
  }
  return box;
}

SpaceBox both_boxes(const SpaceBox& a, const SpaceBox& b) {
  SpaceBox box;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    box.low[axis] = std::min(a.low[axis], b.low[axis]);
    box.high[axis] = std::max(a.high[axis], b.high[axis]);
  }
  const auto centre = box.middle();
  for (const SpaceBox& each : {a, b}) {
    const auto own = each.middle();
    const double away = std::hypot(own[0] - centre[0], own[1] - centre[1], own[2] - centre[2]);
    box.radius = std::max(box.radius, away + each.radius);
  }
  return box;
}

void turn_points(const figures::Panel& space, const SpaceBox& box, const figures::Orbit& orbit,
                 figures::Panel& seen) {
  // The turn as a matrix, once: its columns are where the axes go.
  const figures::Turned a = orbit.turn(1, 0, 0), b = orbit.turn(0, 1, 0), c = orbit.turn(0, 0, 1);
  const auto centre = box.middle();
  for (std::size_t s = 0; s < space.points.size(); ++s) {
    const figures::PointSeries& from = space.points[s];
    figures::PointSeries& to = seen.points.at(s);
    for (std::size_t i = 0; i < from.z.size(); ++i) {
      const double x = from.x[i] - centre[0], y = from.y[i] - centre[1], z = from.z[i] - centre[2];
      to.x.at(i) = static_cast<float>(a.x * x + b.x * y + c.x * z);
      to.y[i] = static_cast<float>(a.y * x + b.y * y + c.y * z);
      to.z[i] = static_cast<float>(a.depth * x + b.depth * y + c.depth * z);
    }
  }
}

}  // namespace keyscope::session
