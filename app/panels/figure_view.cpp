#include "app/panels/figure_view.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/panels/colour_bar.hpp"
#include "app/panels/figure_settings.hpp"
#include "app/display/plot_axes.hpp"
#include "app/session/shared_scale.hpp"

namespace keyscope::window {
namespace {

constexpr float kTileGapPx = 10;

session::Extent both(const session::Extent& a, const session::Extent& b) {
  return {std::min(a.x_low, b.x_low), std::max(a.x_high, b.x_high), std::min(a.y_low, b.y_low),
          std::max(a.y_high, b.y_high)};
}

}  // namespace

const FigurePlots* FigureView::selected() const {
  const auto figure = figures_.find(selected_);
  return figure != figures_.end() ? &figure->second : nullptr;
}

void FigureView::fit() {
  for (auto& [id, figure] : figures_)
    for (std::size_t i = 0; i < figure.size(); ++i) figure.plot(i).fit();
  const FigurePlots* figure = selected();
  for (std::size_t i = 0; figure != nullptr && i < scene_.views.size(); ++i)
    scene_.views[i] = figure->plot(i).view();
}

void FigureView::take(const std::vector<session::RunTile>& tiles) {
  bool changed = keep_with_runs(figures_, tiles);
  bool other_ground = false;
  for (const session::RunTile& tile : tiles) {
    const FigurePlots::Change change = figures_[tile.id].take(tile.shown);
    changed = changed || change != FigurePlots::Change::kNone;
    if (!tile.selected) continue;
    selected_ = tile.id;
    other_ground = change == FigurePlots::Change::kGround;
  }
  if (!changed) return;
  share(tiles);
  const FigurePlots& figure = *selected();
  const std::size_t n_before = scene_.views.size();
  scene_.views.resize(figure.size());
  for (std::size_t i = 0; i < figure.size(); ++i)
    if (other_ground || i >= n_before || !scene_.views[i].moved()) scene_.views[i] = figure.plot(i).view();
}

// Panels of the same place show the same ground, and their colours the same range.
void FigureView::share(const std::vector<session::RunTile>& tiles) {
  shared_scale_.reset();
  std::size_t n_panels = 0;
  for (const auto& [id, figure] : figures_) n_panels = std::max(n_panels, figure.size());
  for (std::size_t i = 0; i < n_panels; ++i) share_panel(i);
  if (n_panels != 1 || tiles.size() < 2) return;
  const auto& map = selected()->size() > 0 ? selected()->plot(0).panel().heatmap : std::nullopt;
  if (map && selected()->plot(0).shares_range()) shared_scale_ = *map;
}

void FigureView::share_panel(std::size_t at) {
  std::optional<session::Extent> ground;
  std::vector<session::MeantScale> scales;
  for (const auto& [id, figure] : figures_) {
    if (at >= figure.size()) continue;
    const session::Extent own = plane_extent(figure.plot(at).panel());
    ground = ground ? both(*ground, own) : own;
    if (const auto scale = figure.plot(at).own_scale()) scales.push_back({*scale, scale->long_name});
  }
  const auto shared = scales.size() > 1 ? session::shared_scale(scales) : std::nullopt;
  for (auto& [id, figure] : figures_) {
    if (at >= figure.size()) continue;
    figure.plot(at).use_range(shared);
    figure.plot(at).use_ground(*ground);
  }
}

// What the legend of one hides the others hide as well.
void FigureView::link_legends(const FigurePlots& leading) {
  for (auto& [id, figure] : figures_)
    for (std::size_t i = 0; i < std::min(figure.size(), leading.size()); ++i)
      figure.plot(i).hide_as(leading.plot(i));
}

void FigureView::draw_tiles(PanelContext& context, const std::vector<session::RunTile>& tiles,
                            const Rect& area) {
  const float bar = shared_scale_ ? colour_bar_width(context, *shared_scale_, area.h) : 0;
  const std::vector<Rect> rects =
      tile_rects({area.x, area.y, area.w - bar, area.h}, tiles.size(), context.px(kTileGapPx));
  const bool alone = tiles.size() == 1;
  const std::size_t first = leading_.among(rects);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const std::size_t at = (first + i) % tiles.size();
    FigurePlots& figure = figures_.at(tiles[at].id);
    const Rect room = alone ? rects[at] : below_title(context, rects[at]);
    if (!alone) draw_tile_title(context, tiles[at], rects[at]);
    if (figure.shown().figure && figure.size() <= scene_.views.size())
      figure.draw(context, scene_, tiles[at], room, !shared_scale_);
    else
      draw_tile_refusal(context, tiles[at], room);
    if (i == 0 && !alone) link_legends(figure);
  }
  if (!shared_scale_) return;
  const float top = below_title(context, rects.front()).y;
  draw_colour_bar(context, *shared_scale_, {area.right() - bar, top, bar, area.bottom() - top});
}

void FigureView::draw_heading(PanelContext& context, const session::RunTile& selected, float width) {
  const figures::Figure& figure = *selected.shown.figure;
  ImGui::PushFont(context.fonts.title);
  ImGui::PushTextWrapPos(0);
  ImGui::TextUnformatted(figure.title.c_str());
  ImGui::PopTextWrapPos();
  ImGui::PopFont();
  const std::string caption =
      selected.making ? "reading …"
      : context.state().comparing()
          ? fmt::format("{} runs side by side. {}", context.state().tiles.size(), figure.caption)
          : figure.caption;
  dim_text(context, fit_text(context.fonts.small, caption, width));
  if (ImGui::IsItemHovered() && !figure.caption.empty()) ImGui::SetTooltip("%s", figure.caption.c_str());
}

void FigureView::draw(PanelContext& context, const Rect& rect) {
  const auto& state = context.state();
  const auto tiles = state.comparing() ? state.tiles : std::vector{session::selected_tile(state)};
  take(tiles);
  begin_panel("figure_view", rect);
  const session::RunTile& own = *std::ranges::find_if(tiles, &session::RunTile::selected);
  if (!own.shown.figure) {
    heading(context, own.making ? "Reading …" : "This cannot be shown");
    ImGui::PushTextWrapPos(0);
    if (!own.making) dim_text(context, own.shown.error);
    ImGui::PopTextWrapPos();
    end_panel();
    return;
  }
  const float width = ImGui::GetContentRegionAvail().x;
  draw_heading(context, own, width);
  draw_figure_settings(context, own.shown.key.name);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const Rect inner{at.x, at.y, width, rect.bottom() - ImGui::GetStyle().WindowPadding.y - at.y};
  if (inner.h > context.px(40)) draw_tiles(context, tiles, inner);
  if (std::exchange(scene_.wants_fit, false)) fit();
  end_panel();
}

nlohmann::ordered_json FigureView::describe() const {
  nlohmann::ordered_json json;
  if (const FigurePlots* figure = selected()) figure->describe(json);
  json["n_tiles"] = figures_.size();
  return json;
}

}  // namespace keyscope::window
