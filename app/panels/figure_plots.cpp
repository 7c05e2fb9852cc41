#include "app/panels/figure_plots.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/panels/text_view.hpp"
#include "app/session/export_view.hpp"
#include "app/session/tokens.hpp"
#include "base/text.hpp"

namespace keyscope::window {
namespace {

constexpr float kLeastPanelPx = 240;  // panels stand side by side where each has this width

void draw_lines(const PanelContext& context, const std::vector<std::string>& lines) {
  ImGui::BeginTooltip();
  for (const std::string& line : lines) dim_text(context, line);
  ImGui::EndTooltip();
}

// A point's place on an axis. Points of one category lie beside each other.
std::string place_on(const figures::Axis& axis, double value) {
  const double category = std::round(value);
  return category >= 0 && category < static_cast<double>(axis.categories.size())
             ? axis.categories[static_cast<std::size_t>(category)]
             : format_value(value);
}

// The selected run's plots go by their number alone.
std::string name_of(const session::RunTile& tile, std::size_t at) {
  const std::string run = tile.selected ? "" : fmt::format("_of_{}_{}", tile.id.source, tile.id.run);
  return at == 0 ? "plot" + run : fmt::format("plot_{}{}", at, run);
}

}  // namespace

// The view is kept where only the run or the block is another one.
FigurePlots::Change FigurePlots::take(const session::MadeFigure& shown) {
  if (shown.figure == shown_.figure && shown.error == shown_.error) return Change::kNone;
  const session::FigureKey &now = shown.key, &before = shown_.key;
  const bool same_places = now.settings.order == before.settings.order &&
                           now.settings.retained_only == before.settings.retained_only &&
                           now.settings.token == before.settings.token;
  const bool same_axes = now.name == before.name && same_places &&
                         now.selection.layer == before.selection.layer &&
                         now.selection.kv_head == before.selection.kv_head;
  shown_ = shown;
  of_tokens_ =
      shown.figure && figures::scope_of(now.name) != figures::FigureScope::kRecording && !now.settings.token;
  const std::size_t n_panels = shown.figure ? shown.figure->panels.size() : 0;
  const bool keep = same_axes && plots_.size() == n_panels;
  plots_.resize(n_panels);
  for (std::size_t i = 0; i < n_panels; ++i) {
    if (!plots_[i]) plots_[i] = std::make_unique<PlotPanel>();
    plots_[i]->use_rows_alone(figures::has_block_columns(now.name));
    figures::Panel panel = shown.figure->panels[i];
    if (n_panels > 1 && panel.heatmap) panel.equal_aspect = false;  // beside others it fills its room
    plots_[i]->set(std::move(panel), of_tokens_, keep && plots_[i]->view().moved());
  }
  return keep ? Change::kValues : Change::kAxes;
}

void FigurePlots::point_at(PanelContext& context, const session::RunTile& tile, const figures::Panel& panel,
                           const PlotHit& hit, bool clicked, const std::string& name) const {
  // Of a matrix of tokens the column is the one that all panels show: it is what is attended to.
  const bool square = !figures::has_block_columns(shown_.key.name);
  const auto token = hit.cell ? std::optional(square ? hit.cell->column : hit.cell->row) : hit.token;
  if (of_tokens_ && token) {
    context.hovered = token;
    if (clicked) context.session.lock(token);
  }
  if (hit.cell && panel.heatmap) {
    const PlotHit::Cell& cell = *hit.cell;
    if (shown_.key.settings.token)
      return draw_lines(context,
                        {place_on(panel.y, hit.y),
                         fmt::format("after block {}: {}", cell.column,
                                     std::isnan(cell.value)
                                         ? "not seen yet"
                                         : panel.heatmap->categories[static_cast<std::size_t>(cell.value)])});
    if (!of_tokens_)
      return draw_lines(context, {std::isnan(cell.value) ? "no value" : format_value(cell.value)});
    return draw_lines(context, session::cell_facts(*tile.info, tile.id.run, shown_.key.name, *panel.heatmap,
                                                   {cell.row, cell.column, cell.value}));
  }
  const auto& head = context.state().selection;
  if (of_tokens_ && hit.token && tile.points && tile.points->head.layer == head.layer &&
      tile.points->head.kv_head == head.kv_head && tile.points->head.run == tile.id.run &&
      *hit.token < tile.points->n_tokens && tile.block >= 0) {
    const std::int64_t block = std::min(tile.block, tile.points->n_blocks() - 1);
    return draw_token_tooltip(context, session::token_facts(*tile.info, *tile.points, block, *hit.token),
                              context.widgets[name]);
  }
  if (!hit.series.empty())
    draw_lines(context,
               {hit.series, fmt::format("{}, {}", place_on(panel.x, hit.x), place_on(panel.y, hit.y))});
}

void FigurePlots::draw_menu(PanelContext& context, FigureScene& scene, const PlotPanel& plot) {
  if (!ImGui::BeginPopup("figure_menu")) return;
  if (ImGui::MenuItem("Fit the view", "double-click")) scene.wants_fit = true;
  if (plot.selects() &&
      ImGui::MenuItem("Drop the selected tokens", "Esc", false, context.state().tokens != nullptr))
    context.session.select_tokens({});
  if (ImGui::MenuItem("Copy the command for this figure", "Ctrl+Shift+C", false,
                      session::view_command_refusal(context.state()).empty()))
    ImGui::SetClipboardText(session::view_command(context.state()).c_str());
  ImGui::EndPopup();
}

void FigurePlots::draw_one(PanelContext& context, FigureScene& scene, const session::RunTile& tile,
                           std::size_t at, const Rect& cell, bool bar) {
  PlotPanel& plot = *plots_[at];
  const std::string name = name_of(tile, at);
  ImGui::SetCursorScreenPos({cell.x, cell.y});
  ImGui::BeginChild(name.c_str(), {cell.width, cell.height}, 0,
                    ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
  const auto& panel = plot.panel();
  if (plots_.size() > 1 && !panel.title.empty())
    dim_text(context, fit_text(context.fonts.small, panel.title, cell.width));
  if (!panel.note.empty()) dim_text(context, fit_text(context.fonts.small, panel.note, cell.width));
  plot.view().follow(scene.views[at]);
  const auto outcome = plot.draw(context, cell, name, bar);
  scene.views[at] = plot.view();
  if (outcome.menu) ImGui::OpenPopup("figure_menu");
  draw_menu(context, scene, plot);
  if (outcome.hit)
    point_at(context, tile, panel, *outcome.hit, outcome.clicked, name);
  else if (outcome.clicked)
    context.session.lock(std::nullopt);
  ImGui::EndChild();
}

void FigurePlots::draw(PanelContext& context, FigureScene& scene, const session::RunTile& tile,
                       const Rect& rect, bool bar) {
  const auto n = static_cast<int>(plots_.size());
  if (n == 0) return;
  const int fitting = std::max(1, static_cast<int>(rect.width / context.px(kLeastPanelPx)));
  const int wanted = n > 1 && shown_.figure->columns == 1 ? n : shown_.figure->columns;
  const int columns = std::clamp(std::min(wanted, fitting), 1, n);
  const int rows = (n + columns - 1) / columns;
  const float gap = context.px(10);
  const float w = (rect.width - gap * static_cast<float>(columns - 1)) / static_cast<float>(columns);
  const float h = (rect.height - gap * static_cast<float>(rows - 1)) / static_cast<float>(rows);
  for (int i = 0; i < n; ++i) {
    const int row = i / columns, column = i % columns;
    draw_one(
        context, scene, tile, i,
        {rect.x + static_cast<float>(column) * (w + gap), rect.y + static_cast<float>(row) * (h + gap), w, h},
        bar);
  }
}

void FigurePlots::describe(nlohmann::ordered_json& json) const {
  json["figure"] = shown_.key.name;
  json["error"] = shown_.error;
  json["panels"] = nlohmann::ordered_json::array();
  for (const auto& plot : plots_) {
    const figures::Extent limits = plot->view().limits();
    nlohmann::ordered_json panel;
    panel["id"] = plot->panel().id;
    panel["limits"] = {limits.x_low, limits.x_high, limits.y_low, limits.y_high};
    if (const auto& map = plot->panel().heatmap) {
      panel["shape"] = {map->values.rows(), map->values.cols()};
      panel["range"] = {map->low, map->high};
    }
    for (const auto& series : plot->panel().points) panel["n_points"][series.id] = series.x.size();
    if (const auto& order = plot->panel().order) panel["tokens"] = order->token;
    json["panels"].push_back(panel);
  }
}

}  // namespace keyscope::window
