#include "app/panels/figure_panel.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/display/plot_axes.hpp"
#include "app/display/plot_legend.hpp"
#include "app/display/widgets.hpp"
#include "app/drawing/cairo_painter.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/side_by_side.hpp"
#include "app/panels/panel_context.hpp"
#include "app/session/keyspace_view.hpp"

namespace keyscope::window {

namespace {

constexpr float kListWidth = 300;
constexpr double kDpi = 120;  // text of 7.5 points is as large as the window's own

}  // namespace

void FigurePanel::draw_list(PanelContext& context, const Rect& rect) const {
  begin_panel("figures", rect);
  const auto& state = context.state();
  heading(context, "Figures");
  dim_text(context, fit_text(context.fonts.small, state.figure_file->origin.model.name,
                             ImGui::GetContentRegionAvail().x));
  ImGui::BeginChild("list");
  for (std::size_t i = 0; i < state.figure_file->figures.size(); ++i) {
    const auto& figure = state.figure_file->figures[i];
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 size(ImGui::GetContentRegionAvail().x, context.px(44));
    ImGui::PushID(static_cast<int>(i));
    if (ImGui::InvisibleButton("figure", size)) context.session.select_figure(static_cast<std::int64_t>(i));
    ImGui::PopID();
    const bool selected = i == state.figure;
    ImDrawList& list = *ImGui::GetWindowDrawList();
    if (selected || ImGui::IsItemHovered())
      list.AddRectFilled(at, {at.x + size.x, at.y + size.y},
                         selected ? context.theme.selected : context.theme.hover, context.px(4));
    if (selected)
      list.AddRectFilled(at, {at.x + context.px(3), at.y + size.y}, context.theme.accent, context.px(2));
    if (selected && (ImGui::IsWindowAppearing() || made_.figure != state.figure)) ImGui::SetScrollHereY();
    const float left = at.x + context.px(12);
    const float room = size.x - context.px(18);
    draw_text(list, context.fonts.regular, {left, at.y + context.px(5)}, context.theme.text,
              fit_text(context.fonts.regular, figure.title, room));
    draw_text(list, context.fonts.small, {left, at.y + context.px(24)}, context.theme.dim,
              fit_text(context.fonts.small, figure.name, room));
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", figure.title.c_str());
    context.widgets[fmt::format("figure_{}", i)] = {at.x, at.y, size.x, size.y};
  }
  ImGui::EndChild();
  end_panel();
}

void FigurePanel::make(const PanelContext& context, Made wanted) {
  if (wanted == made_) return;
  made_ = std::move(wanted);
  error_.clear();
  try {
    const auto image = figures::draw_to_image(made_.file->figures[made_.figure], made_.width, made_.height,
                                              kDpi * context.scale, !made_.light);
    put_image(texture_, image);
    width_ = image.width;
    height_ = image.height;
  } catch (const std::exception& error) {
    error_ = error.what();
  }
}

void FigurePanel::draw_picture(PanelContext& context, const Rect& rect) {
  begin_panel("figure", rect);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < context.px(80) || room.y < context.px(80)) {
    end_panel();
    return;
  }
  make(context, {context.state().figure_file, context.state().figure, static_cast<int>(room.x),
                 static_cast<int>(room.y), context.theme.light});
  if (!error_.empty()) {
    ImGui::TextWrapped("%s", error_.c_str());
    end_panel();
    return;
  }
  ImGui::BeginChild("picture", room, 0, ImGuiWindowFlags_HorizontalScrollbar);
  // In the middle, on whole pixels, so that text stays sharp.
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos(
      {std::round(at.x + std::max(0.0F, 0.5F * (room.x - static_cast<float>(width_)))),
       std::round(at.y + std::max(0.0F, 0.5F * (room.y - static_cast<float>(height_))))});
  ImGui::Image(texture_id(texture_.get()), {static_cast<float>(width_), static_cast<float>(height_)});
  ImGui::EndChild();
  end_panel();
}

void FigurePanel::draw(PanelContext& context, const Rect& rect) {
  const float gap = context.px(8);
  const bool several = context.state().figure_file->figures.size() > 1;
  const float list = several ? std::min(context.px(kListWidth), 0.35F * rect.width) : 0;
  if (several) draw_list(context, {rect.x + gap, rect.y + gap, list - gap, rect.height - 2 * gap});
  draw_picture(context,
               {rect.x + list + gap, rect.y + gap, rect.width - list - 2 * gap, rect.height - 2 * gap});
}

namespace {

using figures::FigureOption;
using figures::MatrixOrder;
using figures::Reduction;
using session::FigureSettings;

// A box to tick, if the figure has the option.
void tick(PanelContext& context, const std::string& figure, FigureOption option, const char* name,
          const char* label, const char* about, bool& value, bool& after_another) {
  if (!figures::understands(figure, option)) return;
  if (after_another) ImGui::SameLine(0, context.px(14));
  after_another = true;
  tick_box(context, label, &value);
  note_widget(context, std::string("setting_") + name);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", about);
}

struct ReductionChoice {
  std::optional<Reduction> reduction;
  const char* label;
};

void choose_reduction(PanelContext& context, std::optional<Reduction>& value) {
  static constexpr std::array kChoices{ReductionChoice{std::nullopt, "cells: the figure's choice"},
                                       ReductionChoice{Reduction::kMean, "cells: mean"},
                                       ReductionChoice{Reduction::kMax, "cells: largest"},
                                       ReductionChoice{Reduction::kMin, "cells: smallest"}};
  const auto* chosen = &kChoices.front();
  for (const auto& choice : kChoices)
    if (choice.reduction == value) chosen = &choice;
  ImGui::SetNextItemWidth(ImGui::CalcTextSize(kChoices.front().label).x + context.px(34));
  const bool open = ImGui::BeginCombo("##reduce", chosen->label);
  note_widget(context, "setting_reduce");
  if (!open) {
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("What a cell shows where several tokens share it");
    return;
  }
  for (const auto& choice : kChoices)
    if (ImGui::Selectable(choice.label, choice.reduction == value)) value = choice.reduction;
  ImGui::EndCombo();
}

void choose_order(PanelContext& context, const std::string& figure, MatrixOrder& value) {
  const auto label = [](MatrixOrder order) { return "order: " + std::string(figures::order_name(order)); };
  const auto orders = figures::orders_of(figure);
  const MatrixOrder shown = std::ranges::find(orders, value) != orders.end() ? value : orders.front();
  ImGui::SetNextItemWidth(ImGui::CalcTextSize("order: dendrogram").x + context.px(34));
  const bool open = ImGui::BeginCombo("##order", label(shown).c_str());
  note_widget(context, "setting_order");
  if (!open) {
    if (ImGui::IsItemHovered())
      ImGui::SetTooltip("%s",
                        figure == "token-lives"
                            ? "By loss: the evicted tokens, first those that would have received most"
                            : "By dendrogram similar keys stand side by side: average linkage on 1 − cosine");
    return;
  }
  for (const MatrixOrder order : orders) {
    if (ImGui::Selectable(label(order).c_str(), order == shown)) value = order;
    note_widget(context, "setting_order_" + std::string(figures::order_name(order)));
  }
  ImGui::EndCombo();
}

// Lanes of all tokens of the head, or of the held token in all heads.
void choose_lanes(PanelContext& context, std::optional<std::int64_t>& token) {
  const auto& locked = context.state().locked;
  bool in_heads = token.has_value() && locked;
  ImGui::BeginDisabled(!locked);
  tick_box(context, "the held token in every head", &in_heads);
  note_widget(context, "setting_in_heads");
  ImGui::EndDisabled();
  if (!locked && ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
    ImGui::SetTooltip("A click on a token holds it");
  token = in_heads ? locked : std::nullopt;
}

// One line with the settings that the shown figure has, each a small control: ranks, scale, which keys, how
// tokens share a cell. Nothing for a figure without any.
void draw_figure_settings(PanelContext& context, const std::string& figure) {
  const bool reduces = figures::understands(figure, FigureOption::kReduce);
  const bool orders = figures::understands(figure, FigureOption::kOrder);
  if (!reduces && !orders && !figures::understands(figure, FigureOption::kRanks)) return;
  FigureSettings settings = context.state().figure_settings;
  bool after_another = false;
  push_font(context.fonts.small);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {context.px(4), context.px(2)});
  tick(context, figure, FigureOption::kRanks, "ranks", "ranks",
       "Ranks instead of values, which is what Spearman's rho compares", settings.ranks, after_another);
  tick(context, figure, FigureOption::kLinear, "linear", "linear scale",
       "A linear colour scale instead of a logarithmic one", settings.linear, after_another);
  tick(context, figure, FigureOption::kRetained, "retained", "retained only",
       "Only the keys that the cache still holds", settings.retained_only, after_another);
  if (orders) {
    if (after_another) ImGui::SameLine(0, context.px(14));
    after_another = true;
    choose_order(context, figure, settings.order);
  }
  if (figures::understands(figure, FigureOption::kToken)) {
    ImGui::SameLine(0, context.px(14));
    choose_lanes(context, settings.token);
  }
  if (reduces) {
    if (after_another) ImGui::SameLine(0, context.px(14));
    choose_reduction(context, settings.reduction);
  }
  ImGui::PopStyleVar();
  ImGui::PopFont();
  context.session.set_figure_settings(settings);
}

constexpr float kTileGapPx = 10;

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
  bool other_axes = false;
  for (const session::RunTile& tile : tiles) {
    const FigurePlots::Change change = figures_[tile.id].take(tile.figure(name_).made);
    changed = changed || change != FigurePlots::Change::kNone;
    if (!tile.selected) continue;
    selected_ = tile.id;
    other_axes = change == FigurePlots::Change::kAxes;
  }
  if (!changed) return;
  share(tiles);
  const FigurePlots& figure = *selected();
  const std::size_t n_before = scene_.views.size();
  scene_.views.resize(figure.size());
  for (std::size_t i = 0; i < figure.size(); ++i)
    if (other_axes || i >= n_before || !scene_.views[i].moved()) scene_.views[i] = figure.plot(i).view();
}

// Panels of the same place have the same axes, and their colours the same range.
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
  figures::Extent shared_extent = figures::Extent::none();
  std::vector<figures::MeantScale> scales;
  for (const auto& [id, figure] : figures_) {
    if (at >= figure.size()) continue;
    shared_extent.include(plane_extent(figure.plot(at).panel()));
    if (const auto scale = figure.plot(at).own_scale()) scales.push_back({*scale, scale->long_name});
  }
  const auto shared = scales.size() > 1 ? figures::shared_scale(scales) : std::nullopt;
  for (auto& [id, figure] : figures_) {
    if (at >= figure.size()) continue;
    figure.plot(at).use_range(shared);
    figure.plot(at).use_extent(shared_extent);
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
  const float bar = shared_scale_ ? colour_bar_width(context, *shared_scale_, area.height) : 0;
  const std::vector<Rect> rects =
      tile_rects({area.x, area.y, area.width - bar, area.height}, tiles.size(), context.px(kTileGapPx));
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
      draw_tile_refusal(context, tiles[at], room, tiles[at].figure(name_).made.error);
    if (i == 0 && !alone) link_legends(figure);
  }
  if (!shared_scale_) return;
  const float top = below_title(context, rects.front()).y;
  draw_colour_bar(context, *shared_scale_, {area.right() - bar, top, bar, area.bottom() - top});
}

void FigureView::draw_heading(PanelContext& context, const session::RunTile& selected, float width) {
  const figures::Figure& figure = *selected.figure(name_).made.figure;
  push_font(context.fonts.title);
  ImGui::PushTextWrapPos(0);
  ImGui::TextUnformatted(figure.title.c_str());
  ImGui::PopTextWrapPos();
  ImGui::PopFont();
  const std::string caption =
      selected.figure(name_).making ? "reading …"
      : context.state().comparing(name_)
          ? fmt::format("{} runs side by side. {}", context.state().tiles.size(), figure.caption)
          : figure.caption;
  dim_text(context, fit_text(context.fonts.small, caption, width));
  if (figure.caption.empty()) return;
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s\nclick: copy", figure.caption.c_str());
  if (ImGui::IsItemClicked()) ImGui::SetClipboardText(figure.caption.c_str());
}

void FigureView::draw(PanelContext& context, const Rect& rect) {
  const auto& state = context.state();
  const auto tiles = state.tiles_of(name_);  // a copy: what is clicked while they are drawn changes them
  take(tiles);
  const session::RunTile& own = *std::ranges::find_if(tiles, &session::RunTile::selected);
  const session::RunTile::Figure& shown = own.figure(name_);
  if (!shown.made.figure) {
    heading(context, shown.making ? "Reading …" : "This cannot be shown");
    ImGui::PushTextWrapPos(0);
    if (!shown.making) dim_text(context, shown.made.error);
    ImGui::PopTextWrapPos();
    return;
  }
  const float width = ImGui::GetContentRegionAvail().x;
  draw_heading(context, own, width);
  draw_figure_settings(context, name_);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const Rect inner{at.x, at.y, width, rect.bottom() - at.y};
  if (inner.height > context.px(40)) draw_tiles(context, tiles, inner);
  if (std::exchange(scene_.wants_fit, false)) fit();
  std::vector<session::ShownPanel> panels;
  for (std::size_t i = 0; i < selected()->size(); ++i) panels.push_back(selected()->plot(i).shown());
  context.session.note_shown(name_, std::move(panels));
}

nlohmann::ordered_json FigureView::describe() const {
  nlohmann::ordered_json json;
  if (const FigurePlots* figure = selected()) figure->describe(json);
  json["n_tiles"] = figures_.size();
  return json;
}

}  // namespace keyscope::window
