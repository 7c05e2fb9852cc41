#include "app/panels/keyspace_panel.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/panels/colour_bar.hpp"
#include "app/panels/keyspace_title.hpp"
#include "app/session/shared_scale.hpp"

namespace keyscope::window {
namespace {

constexpr float kLeastHeightForLegend = 150, kLeastHeightForLegendOfTiles = 230;
constexpr float kLeastHeightForOwnBar = 110;  // of a tile
constexpr float kTileGapPx = 10;
constexpr double kUpright = 0.75;

bool exceeds(const session::Extent& inner, const session::Extent& outer) {
  return inner.x_low < outer.x_low || inner.x_high > outer.x_high || inner.y_low < outer.y_low ||
         inner.y_high > outer.y_high;
}

session::Extent both(const session::Extent& a, const session::Extent& b) {
  return {std::min(a.x_low, b.x_low), std::max(a.x_high, b.x_high), std::min(a.y_low, b.y_low),
          std::max(a.y_high, b.y_high)};
}

}  // namespace

const KeyspacePlot* KeyspacePanel::selected() const {
  const auto plot = plots_.find(selected_);
  return plot != plots_.end() && plot->second->picture() != nullptr ? plot->second.get() : nullptr;
}

void KeyspacePanel::fit() {
  if (const KeyspacePlot* plot = selected()) scene_.view.fit(scene_.extent, plot->panel().equal_aspect);
}

std::int64_t KeyspacePanel::points_drawn() const {
  std::int64_t n_points = 0;
  for (const auto& [id, plot] : plots_) n_points += plot->points_drawn();
  return n_points;
}

void KeyspacePanel::take(const PanelContext& context, const std::vector<session::RunTile>& tiles) {
  bool other = keep_with_runs(plots_, tiles);
  for (const session::RunTile& tile : tiles) {
    auto& plot = plots_[tile.id];
    if (!plot) plot = std::make_unique<KeyspacePlot>();
    if (plot->take(tile, context.state().tokens)) other = true;
    if (tile.selected) selected_ = tile.id;
  }
  if (!other) return;
  share_scale(tiles);
  make_legend();
  update_box();
}

void KeyspacePanel::share_scale(const std::vector<session::RunTile>& tiles) {
  std::vector<session::MeantScale> scales;
  for (const session::RunTile& tile : tiles)
    if (const auto& scale = plots_[tile.id]->own_scale())
      scales.push_back({*scale, session::meaning_of(tile.run().plan, tile.picture->key.look.colour)});
  shared_scale_ = session::shared_scale(scales);
  for (const auto& [id, plot] : plots_) plot->use_scale(shared_scale_);
}

// Of several plots each kind of point once, and without the counts, which stand in the titles.
void KeyspacePanel::make_legend() {
  legend_of_ = {};
  for (const auto& [id, plot] : plots_) {
    if (plot->picture() == nullptr) continue;
    for (const figures::PointSeries& series : plot->picture()->panel.points) {
      if (std::ranges::find(legend_of_.points, series.id, &figures::PointSeries::id) !=
          legend_of_.points.end())
        continue;
      figures::PointSeries& kind = legend_of_.points.emplace_back();
      kind.id = series.id;
      const bool counted = series.id == "retained" || series.id == "evicted" || series.id == "queries";
      kind.label = plots_.size() > 1 && counted ? series.id : series.label;
      kind.colour = series.colour;
      kind.marker = series.marker;
      if (counted && series.id != "queries" && plot->own_scale()) kind.value = {0};  // it has many colours
    }
  }
}

// Points of space are turned about the middle of all runs' keys, and where the view is fitted there are all
// runs in sight.
void KeyspacePanel::update_box() {
  bool first = true;
  for (const auto& [id, plot] : plots_) {
    if (plot->picture() == nullptr || !plot->in_space()) continue;
    scene_.box = first ? plot->box() : session::both_boxes(scene_.box, plot->box());
    first = false;
  }
}

session::Extent KeyspacePanel::extent_of_all() const {
  // The longest axis lies level at first, so less is asked for upwards.
  const double radius = scene_.box.radius;
  if (selected()->in_space()) return {-radius, radius, -kUpright * radius, kUpright * radius};
  session::Extent extent = selected()->extent();
  for (const auto& [id, plot] : plots_)
    if (plot->picture() != nullptr && !plot->in_space()) extent = both(extent, plot->extent());
  return extent;
}

// A new head or projection is fitted; what outgrew the view as well, unless the user has moved it.
void KeyspacePanel::update_view(const PanelContext& context) {
  const session::PictureKey& key = selected()->picture()->key;
  const Fitted now{context.state().recording.get(), key.head.layer, key.head.kv_head, key.look.projection};
  const session::Extent extent = extent_of_all();
  const bool other = now != fitted_;
  if (other)
    scene_.extent = extent;
  else if (exceeds(extent, scene_.extent))
    scene_.extent = both(extent, scene_.extent);
  else
    return;
  fitted_ = now;
  if (other || !scene_.view.moved()) fit();
}

// Keys without a place, and those that the legend hides, are not shown.
void KeyspacePanel::note_shown(PanelContext& context) const {
  const session::KeyspacePicture& picture = *selected()->picture();
  if (picture.key.block < 0) return;
  std::int64_t n_shown = 0;
  for (const figures::PointSeries& series : picture.panel.points)
    if (!series.token.empty() && series.id != "queries" && !scene_.legend.hides(series.id))
      n_shown += std::ssize(series.token);
  if (n_shown < picture.points->seen[static_cast<std::size_t>(picture.key.block)])
    context.n_keys_shown = n_shown;
}

//   bar: the room that colour bars of the tiles' own take; 0 where one serves all
void KeyspacePanel::draw_tile(PanelContext& context, const session::RunTile& tile, const Rect& rect,
                              float bar) {
  KeyspacePlot& plot = *plots_.at(tile.id);
  if (plot.picture() == nullptr) return draw_tile_refusal(context, tile, rect);
  ImGui::PushID(tile.id.source);
  ImGui::PushID(tile.id.run);
  plot.draw(context, scene_, tile, {rect.x, rect.y, rect.w - bar, rect.h});
  ImGui::PopID();
  ImGui::PopID();
  const Rect frame = plot.frame();
  if (bar > 0 && plot.own_scale())
    draw_colour_bar(context, *plot.own_scale(), {frame.right(), frame.y, bar, frame.h});
}

// Equal for all tiles, so that their plots are equally large.
float KeyspacePanel::own_bars_width(const PanelContext& context, float height) const {
  float width = 0;
  for (const auto& [id, plot] : plots_)
    if (!shared_scale_ && plot->own_scale())
      width = std::max(width, colour_bar_width(context, *plot->own_scale(), height));
  return width;
}

void KeyspacePanel::draw_tiles(PanelContext& context, const std::vector<session::RunTile>& tiles,
                               const Rect& area) {
  const float shared = shared_scale_ ? colour_bar_width(context, *shared_scale_, area.h) : 0;
  const std::vector<Rect> rects =
      tile_rects({area.x, area.y, area.w - shared, area.h}, tiles.size(), context.px(kTileGapPx));
  const bool alone = tiles.size() == 1;
  const bool room_for_bars = alone || rects.front().h >= context.px(kLeastHeightForOwnBar);
  const float own = room_for_bars ? own_bars_width(context, rects.front().h) : 0;
  const std::size_t first = leading_.among(rects);
  Rect all;  // from the first plot to the last
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const std::size_t at = (first + i) % tiles.size();
    if (!alone) draw_tile_title(context, tiles[at], rects[at]);
    draw_tile(context, tiles[at], alone ? rects[at] : below_title(context, rects[at]), own);
    const Rect frame = plots_.at(tiles[at].id)->frame();
    if (at == 0) all.y = frame.y;
    if (at + 1 == tiles.size()) all.h = frame.bottom();
  }
  if (shared_scale_ && all.h > all.y)
    draw_colour_bar(context, *shared_scale_, {area.right() - shared, all.y, shared, all.h - all.y});
}

nlohmann::ordered_json KeyspacePanel::describe() const {
  nlohmann::ordered_json json;
  const PlotView& view = scene_.view;
  json["limits"] = {view.x_low(), view.x_high(), view.y_low(), view.y_high()};
  json["hidden"] = scene_.legend.hidden();
  json["points_drawn"] = points_drawn();
  json["orbit"] = {scene_.orbit.azimuth, scene_.orbit.elevation};
  json["n_plots"] = plots_.size();
  const KeyspacePlot* plot = selected();
  if (plot == nullptr) return json;
  json["projection"] = figures::id_of(plot->picture()->key.look.projection);
  json["colour"] = figures::id_of(plot->picture()->key.look.colour);
  plot->describe(json);
  return json;
}

void KeyspacePanel::draw(PanelContext& context, const Rect& rect) {
  const auto& state = context.state();
  const auto tiles = state.comparing() ? state.tiles : std::vector{session::selected_tile(state)};
  take(context, tiles);
  begin_panel("keyspace", rect);
  const KeyspacePlot* plot = selected();
  draw_keyspace_title(context, plot != nullptr ? plot->picture() : nullptr);
  if (plot == nullptr) {
    if (!state.reading && state.notice.of_data)
      ImGui::TextWrapped("These keys cannot be shown. %s", state.notice.text.c_str());
    else
      dim_text(context, state.reading ? "reading the head's keys …" : "nothing was read yet");
    end_panel();
    return;
  }
  update_view(context);
  note_shown(context);
  // The plots come first: without the legend, and tiles without bars of their own, where they would be small.
  const float least = tiles.size() > 1 ? kLeastHeightForLegendOfTiles : kLeastHeightForLegend;
  if (rect.bottom() - ImGui::GetCursorScreenPos().y >= context.px(least) &&
      scene_.legend.draw(context, legend_of_))
    for (const auto& [id, each] : plots_) each->note_hidden();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  draw_tiles(context, tiles, {at.x, at.y, rect.right() - context.px(14) - at.x, rect.bottom() - at.y});
  end_panel();
}

}  // namespace keyscope::window
