#include "app/panels/keyspace_panel.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/display/plot_legend.hpp"
#include "app/display/widgets.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/keyspace_data.hpp"
#include "app/figures/side_by_side.hpp"
#include "app/panels/panel_context.hpp"
#include "app/session/keyspace_view.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

constexpr float kProjectionPx = 100, kColourPx = 150, kLeastColourPx = 60, kControlGapPx = 8;

std::string with_capital(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

void draw_projection(PanelContext& context, figures::KeyspaceLook look) {
  const auto choices = figures::projection_choices();
  const auto chosen = std::ranges::find(choices, look.projection, &figures::ProjectionChoice::projection);
  ImGui::SetNextItemWidth(context.px(kProjectionPx));
  const bool open = ImGui::BeginCombo("##projection", chosen->label.data());
  note_widget(context, "projection");
  if (!open) {
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("Shown in %s", chosen->meaning.data());
    return;
  }
  for (const auto& choice : choices) {
    if (ImGui::Selectable(choice.label.data(), choice.projection == look.projection)) {
      look.projection = choice.projection;
      context.session.choose_look(look);
    }
    note_widget(context, "projection_" + std::string(choice.id));
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", with_capital(std::string(choice.meaning)).c_str());
  }
  ImGui::EndCombo();
}

// The room that the two boxes to tick take, with what keeps them apart.
float ticks_width(const PanelContext& context) {
  return 2 * (ImGui::GetFrameHeight() + ImGui::GetStyle().ItemInnerSpacing.x) +
         text_size(context.fonts.regular, "QueriesHexagons").x + context.px(2 * kControlGapPx);
}

void draw_colour(PanelContext& context, figures::KeyspaceLook look) {
  const auto& state = context.state();
  const auto choices = figures::key_colour_choices();
  const auto chosen = std::ranges::find(choices, look.colour, &figures::KeyColourChoice::colour);
  ImGui::SetNextItemWidth(std::clamp(ImGui::GetContentRegionAvail().x - ticks_width(context),
                                     context.px(kLeastColourPx), context.px(kColourPx)));
  const bool open = ImGui::BeginCombo("##colour", chosen->label.data());
  note_widget(context, "colour");
  if (!open) {
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("Coloured by %s", chosen->meaning.data());
    return;
  }
  for (const auto& choice : choices) {
    const std::string why = figures::colour_refusal(*state.info, state.selection.run, choice.colour);
    ImGui::PushStyleColor(ImGuiCol_Text, why.empty() ? context.theme.text : context.theme.dim);
    if (ImGui::Selectable(choice.label.data(), choice.colour == look.colour) && why.empty()) {
      look.colour = choice.colour;
      context.session.choose_look(look);
    }
    ImGui::PopStyleColor();
    note_widget(context, "colour_" + std::string(choice.id));
    const std::string says = why.empty() ? with_capital(std::string(choice.meaning)) : why;
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", says.c_str());
  }
  ImGui::EndCombo();
}

void draw_queries(PanelContext& context, figures::KeyspaceLook look) {
  const bool recorded = context.state().info->queries;
  bool shown = look.queries && recorded;
  ImGui::PushStyleColor(ImGuiCol_Text, recorded ? context.theme.text : context.theme.dim);
  if (tick_box(context, "Queries", &shown) && recorded) {
    look.queries = shown;
    context.session.choose_look(look);
  }
  ImGui::PopStyleColor();
  note_widget(context, "queries");
  if (ImGui::IsItemHovered())
    ImGui::SetTooltip("%s", recorded ? "The queries of all heads that read these keys (Q)"
                                     : "Queries were not recorded: capture with --record keys,queries");
}

// Of what is there: none counts in space.
void draw_density(PanelContext& context, figures::KeyspaceLook look) {
  bool counts = look.counts(context.state().selected().n_seen);
  ImGui::BeginDisabled(figures::dimensions_of(look.projection) > 2);
  if (tick_box(context, "Hexagons", &counts)) {
    look.density = counts ? figures::KeyDensity::kHexagons : figures::KeyDensity::kPoints;
    context.session.choose_look(look);
  }
  ImGui::EndDisabled();
  note_widget(context, "hexagons");
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("Keys counted in hexagons; by itself above 5,000 keys");
}

// The room that they take on one line, in pixels.
float keyspace_controls_width(const PanelContext& context) {
  return context.px(kProjectionPx + kColourPx + kControlGapPx) + ticks_width(context);
}

// How the key space is shown: projection, what colours say, and whether queries are there. What the recording
// does not hold is dim and says why.
void draw_keyspace_controls(PanelContext& context) {
  const figures::KeyspaceLook look = context.state().look;
  draw_projection(context, look);
  ImGui::SameLine(0, context.px(kControlGapPx));
  draw_colour(context, look);
  ImGui::SameLine(0, context.px(kControlGapPx));
  draw_queries(context, look);
  ImGui::SameLine(0, context.px(kControlGapPx));
  draw_density(context, look);
}

// Beside the name: what is long stays on one line, so that the plot keeps its place while things are read.
std::string policy_of(const session::SessionState& state) {
  if (state.comparing(session::kKeyspaceView)) return fmt::format("{} runs side by side", state.tiles.size());
  const auto& plan = state.run().plan;
  std::string text = plan.policy == "none" ? std::string("none: full cache")
                                           : fmt::format("{}, N = {}", plan.name, format_count(plan.budget));
  if (const analysis::CacheFormat& format = plan.cache_format; format.quantises())
    text += fmt::format(", cache of {}", analysis::cache_dtype_name(format.dtype));
  if (plan.replayed) text += ", replayed on full-cache keys";
  if (plan.oracle) text += plan.replayed ? " by an oracle" : ", by an oracle";
  if (state.selected().reading || state.selected().drawing)
    text += "  ·  reading …";
  else if (state.selected().settling)
    text += "  ·  axes from some keys and queries, all to come …";
  else if (const auto& points = state.selected().points;
           points && points->basis->n_tokens < figures::tokens_to_fit(*state.info))
    text += fmt::format("  ·  axes of the first {} tokens", format_count(points->basis->n_tokens));
  return text;
}

std::string notes_of(const session::KeyspacePicture& shown) {
  std::string text;
  const auto add = [&](const std::string& what) {
    if (!what.empty()) text += (text.empty() ? "" : "  ·  ") + what;
  };
  add(shown.refusal);
  if (shown.key.look.projection == figures::Projection::kAnchor)
    add("the anchor moves from block to block, and every point with it");
  add(shown.panel.note);
  return text;
}

void draw_fitted(const PanelContext& context, const std::string& text, float room) {
  const std::string fitted = fit_text(context.fonts.small, text, room);
  dim_text(context, fitted);
  if (fitted != text && ImGui::IsItemHovered()) ImGui::SetTooltip("%s", text.c_str());
}

// The head's name, what is to be known of the picture, and its controls: beside the name where they fit, else
// below it.
//   shown: may be null
void draw_keyspace_title(PanelContext& context, const session::KeyspacePicture* shown) {
  const auto& selection = context.state().selection;
  const std::string title = fmt::format("Layer {}, KV head {}", selection.layer, selection.kv_head);
  const float right = ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x;
  const float controls = keyspace_controls_width(context), gap = context.px(16);
  const float title_width = text_size(context.fonts.title, title).x;
  const bool beside = ImGui::GetContentRegionAvail().x >= title_width + controls + 5 * gap;
  const float y = ImGui::GetCursorPosY();
  push_font(context.fonts.title);
  ImGui::TextUnformatted(title.c_str());
  ImGui::PopFont();
  ImGui::SameLine();
  ImGui::SetCursorPosY(y + context.px(4));
  draw_fitted(context, policy_of(context.state()),
              (beside ? right - controls - gap : right) - ImGui::GetCursorPosX());
  if (beside) {
    ImGui::SameLine();
    ImGui::SetCursorPos({right - controls, y});
  }
  draw_keyspace_controls(context);
  if (shown != nullptr) draw_fitted(context, notes_of(*shown), ImGui::GetContentRegionAvail().x);
}

constexpr float kLeastHeightForOwnLegend = 150, kLeastHeightForLegendOfTiles = 230;
constexpr float kLeastHeightForOwnBar = 110;  // of a tile
constexpr float kKeyspaceTileGapPx = 10;
constexpr double kFirstAspect = 0.95;

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
  std::vector<figures::MeantScale> scales;
  for (const session::RunTile& tile : tiles)
    if (const auto& scale = plots_[tile.id]->own_scale())
      scales.push_back({*scale, figures::meaning_of(tile.run().plan, tile.picture->key.look.colour)});
  shared_scale_ = figures::shared_scale(scales);
  for (const auto& [id, plot] : plots_) plot->use_scale(shared_scale_);
}

// Of several plots each kind of point once.
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
      kind.label = series.label;
      kind.colour = series.colour;
      kind.marker = series.marker;
      const bool of_keys = series.id == "retained" || series.id == "evicted";
      if (of_keys && plot->own_scale()) kind.value = {0};  // it has many colours
    }
  }
}

// Points of space are turned about the middle of all runs' keys, and where the view is fitted there are all
// runs in sight.
void KeyspacePanel::update_box() {
  bool first = true;
  for (const auto& [id, plot] : plots_) {
    if (plot->picture() == nullptr || !plot->in_space()) continue;
    scene_.box = first ? plot->box() : figures::both_boxes(scene_.box, plot->box());
    first = false;
  }
}

figures::Extent KeyspacePanel::extent_of_all() const {
  // The longest axis lies level at first, so less is asked for upwards.
  const double radius = scene_.box.radius;
  if (selected()->in_space()) return {-radius, radius, -kFirstAspect * radius, kFirstAspect * radius};
  figures::Extent extent = selected()->extent();
  for (const auto& [id, plot] : plots_)
    if (plot->picture() != nullptr && !plot->in_space()) extent.include(plot->extent());
  return extent;
}

// A new head or projection is fitted; what outgrew the view as well, unless the user has moved it.
void KeyspacePanel::update_view(const PanelContext& context) {
  const session::PictureKey& key = selected()->picture()->key;
  const Fitted now{context.state().recording.get(), key.head.layer, key.head.kv_head, key.look.projection};
  const figures::Extent extent = extent_of_all();
  const bool other = now != fitted_;
  if (other)
    scene_.extent = extent;
  else if (!scene_.extent.contains(extent))
    scene_.extent.include(extent);
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
  if (n_shown < picture.points->seen[picture.key.block]) context.n_keys_shown = n_shown;
}

//   bar: the room that colour bars of the tiles' own take; 0 where one serves all
void KeyspacePanel::draw_tile(PanelContext& context, const session::RunTile& tile, const Rect& rect,
                              float bar) {
  KeyspacePlot& plot = *plots_.at(tile.id);
  if (plot.picture() == nullptr || plot.picture()->points->n_tokens == 0)
    return draw_tile_refusal(context, tile, rect, "no block yet");
  ImGui::PushID(tile.id.source);
  ImGui::PushID(tile.id.run);
  plot.draw(context, scene_, tile, {rect.x, rect.y, rect.width - bar, rect.height});
  ImGui::PopID();
  ImGui::PopID();
  const Rect frame = plot.frame();
  if (const auto& scale = plot.own_scale(); bar > 0 && scale)
    draw_colour_bar(context, *scale, {frame.right(), frame.y, bar, frame.height});
}

// Equal for all tiles, so that their plots are equally large.
float KeyspacePanel::own_bars_width(const PanelContext& context, float height) const {
  float width = 0;
  for (const auto& [id, plot] : plots_)
    if (const auto& scale = plot->own_scale(); scale && !shared_scale_)
      width = std::max(width, colour_bar_width(context, *scale, height));
  return width;
}

void KeyspacePanel::draw_tiles(PanelContext& context, const std::vector<session::RunTile>& tiles,
                               const Rect& area) {
  const float shared = shared_scale_ ? colour_bar_width(context, *shared_scale_, area.height) : 0;
  const std::vector<Rect> rects = tile_rects({area.x, area.y, area.width - shared, area.height}, tiles.size(),
                                             context.px(kKeyspaceTileGapPx));
  const bool alone = tiles.size() == 1;
  const float words = generated_height(context, tiles);
  const bool room_for_bars = alone || rects.front().height >= context.px(kLeastHeightForOwnBar);
  const float own = room_for_bars ? own_bars_width(context, rects.front().height) : 0;
  const std::size_t first = leading_.among(rects);
  Rect all;  // from the first plot to the last
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const std::size_t at = (first + i) % tiles.size();
    if (!alone) draw_tile_title(context, tiles[at], rects[at]);
    Rect plot = alone ? rects[at] : below_title(context, rects[at]);
    plot.height -= words;
    draw_tile(context, tiles[at], plot, own);
    draw_generated(context, tiles[at], {plot.x, plot.bottom(), plot.width, words});
    const Rect frame = plots_.at(tiles[at].id)->frame();
    if (at == 0) all.y = frame.y;
    if (at + 1 == tiles.size()) all.height = frame.bottom();
  }
  if (shared_scale_ && all.height > all.y)
    draw_colour_bar(context, *shared_scale_, {area.right() - shared, all.y, shared, all.height - all.y});
}

nlohmann::ordered_json KeyspacePanel::describe() const {
  nlohmann::ordered_json json;
  const figures::Extent limits = scene_.view.limits();
  json["limits"] = {limits.x_low, limits.x_high, limits.y_low, limits.y_high};
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
  const auto tiles =
      state.tiles_of(session::kKeyspaceView);  // a copy: what is clicked while they are drawn changes them
  take(context, tiles);
  const KeyspacePlot* plot = selected();
  draw_keyspace_title(context, plot != nullptr ? plot->picture() : nullptr);
  if (plot == nullptr) {
    if (!state.selected().reading && state.notice.of_data)
      ImGui::TextWrapped("These keys cannot be shown. %s", state.notice.text.c_str());
    else
      dim_text(context, state.selected().reading ? "reading the head's keys …" : "nothing was read yet");
    return;
  }
  update_view(context);
  note_shown(context);
  // The plots come first: without the legend, and tiles without bars of their own, where they would be small.
  const float least = tiles.size() > 1 ? kLeastHeightForLegendOfTiles : kLeastHeightForOwnLegend;
  if (rect.bottom() - ImGui::GetCursorScreenPos().y >= context.px(least) &&
      scene_.legend.draw(context, legend_of_))
    for (const auto& [id, each] : plots_) each->note_hidden();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  draw_tiles(context, tiles, {at.x, at.y, rect.right() - at.x, rect.bottom() - at.y});
  // Which keys score highest is said by colour here, not by circles about them.
  std::vector<std::string> hidden = scene_.legend.hidden();
  hidden.emplace_back(figures::kTopKeysSeries);
  context.session.note_shown(session::kKeyspaceView, {{part_of(scene_.view), std::move(hidden), scene_.orbit,
                                                       KeyspacePlot::hexagon(context, scene_.view)}});
}

}  // namespace keyscope::window
