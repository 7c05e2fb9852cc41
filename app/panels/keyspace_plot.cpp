#include "app/panels/keyspace_plot.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <implot.h>
#include <nlohmann/json.hpp>

#include "app/display/plot_axes.hpp"
#include "app/display/plot_legend.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/scales.hpp"
#include "app/figures/token_selection.hpp"
#include "app/panels/text_view.hpp"
#include "app/session/export_view.hpp"
#include "app/session/tokens.hpp"

namespace keyscope::window {
namespace {

constexpr float kPickRadiusPx = 9, kHexagonPx = 7;
constexpr std::size_t kMostNames = 40;
constexpr float kLeastHeightForAxisNames = 120, kLeastWidthForAxisNames = 230;
constexpr double kTurnPerPixel = 0.008;  // radians

std::vector<std::string> not_hovered(std::vector<std::string> hidden) {
  hidden.emplace_back("queries");  // a query is no key, and its token's key lies elsewhere
  return hidden;
}

bool same_ends(const std::optional<figures::ColourScale>& a, const std::optional<figures::ColourScale>& b) {
  return a && b ? a->low == b->low && a->high == b->high : !a && !b;
}

}  // namespace

bool KeyspacePlot::take(const session::RunTile& tile,
                        const std::shared_ptr<const session::TokenSet>& tokens) {
  if (tile.picture == picture_ && tokens == tokens_) return false;
  picture_ = tile.picture;
  tokens_ = tokens;
  panel_ = !picture_ ? figures::Panel{}
           : tokens  ? figures::fade_unselected(picture_->panel, *tokens)
                     : picture_->panel;
  own_scale_ = panel_.scale;
  seen_ = panel_;
  if (picture_ && in_space() && box_of_ != picture_->points) {
    box_of_ = picture_->points;
    box_ = figures::space_box(box_of_->coordinates);
  }
  turn_is_old_ = index_is_old_ = true;
  ++revision_;
  others_ = seen_.density ? figures::without_keys(seen_) : figures::Panel{};
  return true;
}

void KeyspacePlot::use_scale(const std::optional<figures::ColourScale>& shared) {
  const auto& scale = shared && own_scale_ ? shared : own_scale_;
  if (same_ends(scale, seen_.scale)) return;
  panel_.scale = seen_.scale = scale;
  ++revision_;
}

figures::Extent KeyspacePlot::extent() const {
  const bool first_components = picture_->key.look.projection == figures::Projection::kPca;
  return first_components ? picture_->points->extent : session::points_extent(panel_);
}

// A plot turns its points where the scene was turned, by whichever plot.
void KeyspacePlot::turn(const KeyspaceScene& scene) {
  if (!in_space()) return;
  if (!turn_is_old_ && turned_ == scene.orbit && turned_box_ == scene.box) return;
  figures::turn_points(panel_, scene.box, scene.orbit, seen_);
  turned_ = scene.orbit;
  turned_box_ = scene.box;
  turn_is_old_ = false;
  index_is_old_ = true;
  ++revision_;
}

void KeyspacePlot::update_index(const PlotLegend& legend) {
  if (!index_is_old_) return;
  index_.build(seen_, not_hovered(legend.hidden()));
  index_is_old_ = false;
}

void KeyspacePlot::draw_content(PanelContext& context, const KeyspaceScene& scene) {
  layer_.draw(seen_.density ? others_ : seen_, revision_, view_, context.theme, scene.legend.hidden(),
              context.scale);
  ImPlot::PushPlotClipRect();
  if (seen_.density) draw_density(context, scene);
  draw_picture(layer_, view_);
  if (in_space()) draw_space_frame(context, seen_, scene.box, scene.orbit, view_);
  draw_means(context, scene.legend);
  draw_names(context, scene);
  if (const auto held = context.state().locked) draw_token(context, *held, true);
  if (const auto token = context.state().hovered) draw_token(context, *token, false);
  ImPlot::PopPlotClipRect();
}

double KeyspacePlot::hexagon(const PanelContext& context, const PlotView& view) {
  return context.px(kHexagonPx) / view.pixels_per_unit_x();
}

void KeyspacePlot::draw_density(PanelContext& context, const KeyspaceScene& scene) {
  const float radius = context.px(kHexagonPx);
  if (std::tuple now{revision_, view_.revision(), scene.legend.hidden()}; now != counted_for_) {
    density_ = figures::density_of(seen_, scene.legend.hidden(), view_.limits(), view_.pixels_per_unit_x(),
                                   view_.pixels_per_unit_y(), radius, figures::kNamedPeaks);
    counted_for_ = std::move(now);
  }
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  const std::vector<double> corners = figures::hexagon(radius);
  const ImDrawListFlags flags = std::exchange(list.Flags, list.Flags & ~ImDrawListFlags_AntiAliasedFill);
  for (const figures::DensityCell& cell : density_.cells) {
    const Pixel at = view_.to_pixel(cell.x, cell.y);
    for (std::size_t i = 0; i < corners.size(); i += 2)
      list.PathLineTo({at.x + static_cast<float>(corners[i]), at.y + static_cast<float>(corners[i + 1])});
    list.PathFillConvex(ink_colour(context.theme, cell.colour, cell.opacity));
  }
  list.Flags = flags;
}

// Peaks by their tokens; where few keys are in sight, these by theirs. Those that have no room are left out.
void KeyspacePlot::draw_names(const PanelContext& context, const KeyspaceScene& scene) const {
  struct Name {
    Pixel at;
    std::string text;
  };
  std::vector<Name> names;
  if (seen_.density) {
    for (const figures::DensityPeak& peak : density_.peaks)
      names.push_back({view_.to_pixel(peak.x, peak.y), peak.label});
  } else if (scene.view.moved() && seen_.token_text) {
    for (const figures::PointSeries& series : seen_.points) {
      if (!figures::is_of_keys(series) || series.faded || scene.legend.hides(series.id)) continue;
      for (std::size_t i = 0; i < series.x.size() && names.size() <= kMostNames; ++i) {
        const Pixel at = view_.to_pixel(series.x[i], series.y[i]);
        if (view_.contains(at))
          names.push_back({at, figures::token_label(seen_.token_text(series.token[i]))});
      }
    }
    if (names.size() > kMostNames) return;
  }
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  const Font& font = context.fonts.small;
  std::vector<Rect> taken;
  for (const Name& name : names) {
    const ImVec2 size = text_size(font, name.text);
    const Rect box{name.at.x + context.px(kHexagonPx), name.at.y - 0.5F * font.size, size.x, font.size};
    if (std::ranges::any_of(taken, [&](const Rect& other) {
          return box.x < other.right() && other.x < box.right() && box.y < other.bottom() &&
                 other.y < box.bottom();
        }))
      continue;
    taken.push_back(box);
    list.AddRectFilled({box.x - context.px(2), box.y}, {box.right() + context.px(2), box.bottom()},
                       with_alpha(context.theme.plot, 0.75F), context.px(2));
    draw_text(list, font, {box.x, box.y}, context.theme.text, name.text);
  }
}

void KeyspacePlot::draw(PanelContext& context, KeyspaceScene& scene, const session::RunTile& tile,
                        const Rect& rect) {
  if (rect.width <= context.px(60) || rect.height <= context.px(40)) return;
  // Without the axes' names where the plot would be too small.
  const bool names = rect.height >= context.px(kLeastHeightForAxisNames) &&
                     rect.width >= context.px(kLeastWidthForAxisNames);
  view_.follow(scene.view);
  const std::string name =
      tile.selected ? std::string("plot") : fmt::format("plot_{}_{}", tile.id.source, tile.id.run);
  if (!plot_.begin(context, name, rect, seen_, view_, names, true)) return;
  turn(scene);
  draw_content(context, scene);
  take_mouse(context, scene, tile, plot_.end(context, view_));
}

void KeyspacePlot::take_mouse(PanelContext& context, KeyspaceScene& scene, const session::RunTile& tile,
                              const PlotMouse& mouse) {
  scene.view = view_;
  if (mouse.fit) scene.view.fit(scene.extent, seen_.equal_aspect);
  if (mouse.turned.x != 0 || mouse.turned.y != 0)
    scene.orbit.drag(mouse.turned.x * kTurnPerPixel, mouse.turned.y * kTurnPerPixel);
  if (mouse.fit || mouse.turned.x != 0 || mouse.turned.y != 0) context.wants_frames = true;
  if (!mouse.outline.empty()) select_inside(context, scene, mouse.outline);
  if (mouse.menu) ImGui::OpenPopup("plot_menu");
  draw_menu(context, scene);
  if (mouse.over) point_at(context, scene, tile, *mouse.over, mouse.clicked);
}

void KeyspacePlot::select_inside(PanelContext& context, const KeyspaceScene& scene,
                                 const std::vector<Pixel>& outline) {
  std::vector<figures::OutlinePoint> points;
  for (const Pixel& at : outline) {
    const PlotPoint point = view_.to_plane(at);
    points.push_back({point.x, point.y});
  }
  context.session.select_tokens(figures::tokens_inside(seen_, scene.legend.hidden(), points));
  context.wants_frames = true;
}

void KeyspacePlot::point_at(PanelContext& context, const KeyspaceScene& scene, const session::RunTile& tile,
                            const Pixel& at, bool clicked) {
  update_index(scene.legend);
  const auto token = index_.nearest(view_, at, context.px(kPickRadiusPx));
  if (clicked) context.session.lock(token ? std::optional<std::int64_t>(*token) : std::nullopt);
  if (!token) return;
  context.hovered = *token;
  const std::int64_t block = picture_->key.block;
  if (block < 0 || *token >= picture_->points->n_tokens) return;
  draw_token_tooltip(context, session::token_facts(*tile.info, *picture_->points, block, *token),
                     {view_.left(), view_.top(), view_.width(), view_.height()});
}

void KeyspacePlot::draw_menu(PanelContext& context, KeyspaceScene& scene) {
  if (!ImGui::BeginPopup("plot_menu")) return;
  const auto& state = context.state();
  if (ImGui::MenuItem("Fit the view", "double-click")) scene.view.fit(scene.extent, seen_.equal_aspect);
  if (in_space() && ImGui::MenuItem("Turn back")) scene.orbit = {};
  if (ImGui::MenuItem("Drop the selected tokens", "Esc", false, state.tokens != nullptr))
    context.session.select_tokens({});
  if (ImGui::MenuItem("Copy the command for this figure", nullptr, false,
                      session::view_command_refusal(state).empty()))
    ImGui::SetClipboardText(session::keyspace_command(state).c_str());
  ImGui::EndPopup();
}

void KeyspacePlot::draw_means(const PanelContext& context, const PlotLegend& legend) const {
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  const ImU32 outline = context.theme.light ? IM_COL32_WHITE : IM_COL32(10, 13, 18, 255);
  for (const figures::PointSeries& series : seen_.points) {
    if (PointLayer::draws(series) || series.x.empty() || legend.hides(series.id)) continue;
    const Pixel at = view_.to_pixel(series.x[0], series.y[0]);
    draw_marker(list, series.marker, {at.x, at.y}, context.px(series.size_px), to_colour(series.colour),
                outline);
  }
}

// Of the key series, whose tokens ascend.
std::optional<KeyspacePlot::Found> KeyspacePlot::find(std::int64_t token) const {
  for (const figures::PointSeries& series : seen_.points) {
    if (series.id == "queries") continue;
    const auto at = std::ranges::lower_bound(series.token, static_cast<std::int32_t>(token));
    if (at != series.token.end() && *at == token)
      return Found{&series, static_cast<std::size_t>(at - series.token.begin())};
  }
  return std::nullopt;
}

// The hovered or held token, on top of everything and larger, in its own shape: a ring where this run has
// evicted it.
void KeyspacePlot::draw_token(PanelContext& context, std::int64_t token, bool held) const {
  const auto found = find(token);
  if (!found) return;
  const Pixel at = view_.to_pixel(found->series->x[found->at], found->series->y[found->at]);
  ImDrawList& list = *ImPlot::GetPlotDrawList();
  const figures::PointSeries& series = *found->series;
  const float value = seen_.scale && !series.value.empty() ? series.value[found->at] : 0;
  const bool valued = seen_.scale && !series.value.empty() && !std::isnan(value);
  const figures::Colour colour = valued ? figures::colour_of(*seen_.scale, value) : series.colour;
  draw_marker(list, series.marker, {at.x, at.y}, context.px(12), ink_colour(context.theme, colour),
              context.theme.text);
  if (held) list.AddCircle({at.x, at.y}, context.px(11), context.theme.text, 0, context.px(1.5F));
}

void KeyspacePlot::describe(nlohmann::ordered_json& json) const {
  std::map<std::string, std::size_t> n_points;
  for (const figures::PointSeries& series : seen_.points) {
    json["n_points"][series.id] = n_points[series.id] += series.x.size();  // faded ones come first
    if (series.x.empty()) continue;
    const Pixel at = view_.to_pixel(series.x.back(), series.y.back());
    json["last_point"][series.id] = {at.x, at.y, series.token.empty() ? -1 : series.token.back()};
  }
}

}  // namespace keyscope::window
