#include "app/session/keyspace_view.hpp"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "app/figures/keyspace_data.hpp"
#include "app/measures/token_story.hpp"

namespace keyscope::session {

namespace {

using figures::KeyColour;
using figures::PointSeries;
using figures::Projection;

constexpr float kMarkScale = 4.0F / 3;  // marks in the window are pointed at

}  // namespace

PossibleLook possible_look(const recording::RecordingInfo& info, int run, figures::KeyspaceLook look) {
  std::string why = figures::colour_refusal(info, run, look.colour);
  if (!why.empty()) look.colour = KeyColour::kDecision;
  if (look.queries && !info.queries) {
    look.queries = false;
    why += why.empty() ? "queries were not recorded" : "; queries were not recorded";
  }
  return {look, std::move(why)};
}

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

namespace {

void name_tokens(figures::Panel& panel, const RecordingInfoPtr& info, int run) {
  panel.token_text = [info, run](std::int32_t token) { return measures::token_bytes(*info, run, token); };
}

}  // namespace

std::shared_ptr<const KeyspacePicture> make_picture(const recording::Recording& recording,
                                                    const RecordingInfoPtr& info,
                                                    std::shared_ptr<const HeadPoints> points,
                                                    const PictureKey& key, QueryCache& queries) {
  auto picture = std::make_shared<KeyspacePicture>();
  picture->key = key;
  picture->points = std::move(points);
  const HeadPoints& head = *picture->points;
  const auto [look, refusal] = possible_look(*info, key.head.run, key.look);
  picture->refusal = refusal;
  figures::KeyspaceContent content;
  if (key.block >= 0 && key.block < head.n_blocks()) {
    const std::int64_t n_seen = head.seen[key.block];
    if (look.queries) content.queries = queries.place(recording, head, key.block, look.projection);
    if (look.colour != KeyColour::kDecision)
      content.colours = figures::key_values(
          recording, *info,
          {key.head.run, key.head.layer, key.head.kv_head, key.block, n_seen, look.reference}, look.colour,
          head.keys.topRows(n_seen), head.trace);
  }
  picture->panel = keyspace_panel(head, key.block, look, std::move(content));
  name_tokens(picture->panel, info, key.head.run);
  if (key.block >= 0 && key.block < head.n_blocks() && look.counts(head.seen[key.block]))
    figures::count_in_hexagons(picture->panel);
  return picture;
}

std::shared_ptr<const KeyspacePicture> make_picture_anyway(const recording::Recording& recording,
                                                           const RecordingInfoPtr& info,
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

}  // namespace keyscope::session
