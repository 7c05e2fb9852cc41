#include "app/session/keyspace_view.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "app/figures/keyspace_data.hpp"

namespace keyscope::session {

namespace {

using figures::KeyColour;
using figures::PointSeries;
using figures::Projection;

constexpr float kMarkScale = 4.0F / 3;  // marks in the window are pointed at

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

}  // namespace

figures::Panel keyspace_panel(const HeadPoints& points, std::int64_t block, const figures::KeyspaceLook& look,
                              figures::KeyspaceContent content) {
  RowMatrixF against_anchor;
  const bool anchored = look.projection == Projection::kAnchor;
  if (block >= 0 && block < points.n_blocks()) {
    content.n_seen = points.seen[block];
    content.retained = recording::retained_positions(points.trace.evicted_at, content.n_seen, block);
    content.anchor = points.mean_key.row(block).transpose();
    if (block < points.mean_query.rows()) content.mean_query = points.mean_query.row(block).transpose();
    if (anchored)
      against_anchor = figures::anchor_coordinates(points.keys.topRows(content.n_seen), content.anchor);
  }
  figures::Panel panel = figures::keyspace_panel(
      *points.basis, look.projection, anchored ? against_anchor : points.coordinates, content,
      {.n_keys = points.n_tokens, .mark_scale = kMarkScale, .only_placed = true});
  panel.id = "keyspace";
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
  figures::KeyspaceContent content;
  if (key.block >= 0 && key.block < head.n_blocks()) {
    const std::int64_t n_seen = head.seen[key.block];
    if (look.queries) content.queries = queries.place(recording, head, key.block, look.projection);
    if (look.colour != KeyColour::kDecision)
      content.colours = figures::key_values(
          recording, info,
          {key.head.run, key.head.layer, key.head.kv_head, key.block, n_seen, look.reference}, look.colour,
          head.keys.topRows(n_seen), head.trace);
  }
  picture->panel = keyspace_panel(head, key.block, look, std::move(content));
  if (key.block >= 0 && key.block < head.n_blocks() && look.counts(head.seen[key.block]))
    figures::count_in_hexagons(picture->panel, std::make_shared<const recording::RecordingInfo>(info),
                               key.head.run);
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

figures::Extent points_extent(const figures::Panel& panel) {
  figures::Extent extent = figures::Extent::none();
  for (const PointSeries& series : panel.points)
    for (std::size_t i = 0; i < series.x.size(); ++i) extent.include(series.x[i], series.y[i]);
  return extent;
}

std::string look_options(const figures::KeyspaceLook& look) {
  std::string options;
  if (look.projection != Projection::kPca)
    options += fmt::format(" --projection {}", figures::id_of(look.projection));
  if (look.colour != KeyColour::kDecision)
    options += fmt::format(" --colour {}", figures::id_of(look.colour));
  if (look.queries) options += " --queries";
  if (look.density != figures::KeyDensity::kAuto)
    options += fmt::format(" --density {}", figures::id_of(look.density));
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
      double &low = box.low[axis], &high = box.high[axis];
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
