#include "app/panels/figure_view.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/lifespans.hpp"
#include "app/panels/figure_settings.hpp"
#include "app/panels/token_tooltip.hpp"
#include "app/session/cell_facts.hpp"
#include "app/session/token_facts.hpp"
#include "app/session/view_command.hpp"

namespace keyscope::window {
namespace {

constexpr float kLeastPanelPx = 240;  // panels stand side by side where each has this width

void draw_lines(const PanelContext& context, const std::vector<std::string>& lines) {
  ImGui::BeginTooltip();
  for (const std::string& line : lines) dim_text(context, line);
  ImGui::EndTooltip();
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

}  // namespace

void FigureView::fit() {
  for (const auto& plot : plots_) plot->fit();
}

// The view is kept where only the run or the moment is another one.
void FigureView::take(const session::MadeFigure& shown) {
  if (shown.figure == shown_.figure && shown.error == shown_.error) return;
  const session::FigureKey &now = shown.key, &before = shown_.key;
  const bool same_places = now.settings.order == before.settings.order &&
                           now.settings.retained_only == before.settings.retained_only;
  const bool same_ground = now.name == before.name && same_places &&
                           now.selection.layer == before.selection.layer &&
                           now.selection.kv_head == before.selection.kv_head;
  shown_ = shown;
  of_tokens_ = shown.figure && figures::scope_of(now.name) != figures::FigureScope::kRecording;
  const std::size_t n_panels = shown.figure ? shown.figure->panels.size() : 0;
  const bool keep = same_ground && plots_.size() == n_panels;
  plots_.resize(n_panels);
  for (std::size_t i = 0; i < n_panels; ++i) {
    if (!plots_[i]) plots_[i] = std::make_unique<PlotPanel>();
    plots_[i]->use_rows_alone(figures::has_block_columns(now.name));
    plots_[i]->set(shown.figure->panels[i], of_tokens_, keep && plots_[i]->view().moved());
  }
}

void FigureView::point_at(PanelContext& context, const figures::Panel& panel, const PlotHit& hit,
                          bool clicked) const {
  const auto& state = context.state();
  // Of a matrix of tokens the column is the one that all panels show: it is what is attended to.
  const bool square = !figures::has_block_columns(shown_.key.name);
  const auto token = hit.cell ? std::optional(square ? hit.cell->column : hit.cell->row) : hit.token;
  if (of_tokens_ && token) {
    context.hovered = token;
    if (clicked) context.session.lock(token);
  }
  if (hit.cell) {
    const PlotHit::Cell& cell = *hit.cell;
    if (!of_tokens_) return draw_lines(context, {std::isnan(cell.value) ? "no value" : number(cell.value)});
    return draw_lines(context, session::cell_facts(*state.info, state.selection.run, shown_.key.name,
                                                   *panel.heatmap, {cell.row, cell.column, cell.value}));
  }
  if (of_tokens_ && hit.token && state.points && state.points->head == state.head() &&
      *hit.token < state.points->n_tokens && state.selection.block >= 0) {
    const std::int64_t block = std::min(state.selection.block, state.points->n_blocks() - 1);
    return draw_token_tooltip(context, session::token_facts(*state.info, *state.points, block, *hit.token),
                              context.widgets["plot"]);
  }
  if (!hit.series.empty())
    draw_lines(context, {hit.series, fmt::format("{}, {}", number(hit.x), number(hit.y))});
}

void FigureView::draw_menu(PanelContext& context, const PlotPanel& plot) {
  if (!ImGui::BeginPopup("figure_menu")) return;
  if (ImGui::MenuItem("Fit the view", "double-click")) fit();
  if (plot.selects() &&
      ImGui::MenuItem("Drop the selected tokens", "Esc", false, context.state().tokens != nullptr))
    context.session.select_tokens({});
  if (ImGui::MenuItem("Copy the command for this figure", "Ctrl+Shift+C", false,
                      session::view_command_refusal(context.state()).empty()))
    ImGui::SetClipboardText(session::view_command(context.state()).c_str());
  ImGui::EndPopup();
}

void FigureView::draw_one(PanelContext& context, PlotPanel& plot, const Rect& cell, const std::string& name) {
  ImGui::SetCursorScreenPos({cell.x, cell.y});
  ImGui::BeginChild(name.c_str(), {cell.w, cell.h}, false,
                    ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
  const auto& panel = plot.panel();
  if (plots_.size() > 1 && !panel.title.empty())
    dim_text(context, fit_text(context.fonts.small, panel.title, cell.w));
  if (!panel.note.empty()) dim_text(context, fit_text(context.fonts.small, panel.note, cell.w));
  const auto outcome = plot.draw(context, cell, name);
  if (outcome.menu) ImGui::OpenPopup("figure_menu");
  draw_menu(context, plot);
  if (outcome.hit)
    point_at(context, panel, *outcome.hit, outcome.clicked);
  else if (outcome.clicked)
    context.session.lock(std::nullopt);
  ImGui::EndChild();
}

void FigureView::draw_panels(PanelContext& context, const Rect& rect) {
  const auto n = static_cast<int>(plots_.size());
  const int fitting = std::max(1, static_cast<int>(rect.w / context.px(kLeastPanelPx)));
  const int wanted = n > 1 && shown_.figure->columns == 1 ? n : shown_.figure->columns;
  const int columns = std::clamp(std::min(wanted, fitting), 1, n);
  const int rows = (n + columns - 1) / columns;
  const float gap = context.px(10);
  const float w = (rect.w - gap * static_cast<float>(columns - 1)) / static_cast<float>(columns);
  const float h = (rect.h - gap * static_cast<float>(rows - 1)) / static_cast<float>(rows);
  for (int i = 0; i < n; ++i) {
    const int row = i / columns, column = i % columns;
    const Rect cell{rect.x + static_cast<float>(column) * (w + gap),
                    rect.y + static_cast<float>(row) * (h + gap), w, h};
    draw_one(context, *plots_[static_cast<std::size_t>(i)], cell,
             i == 0 ? "plot" : fmt::format("plot_{}", i));
  }
}

void FigureView::draw(PanelContext& context, const Rect& rect) {
  const auto& state = context.state();
  take(state.shown);
  begin_panel("figure_view", rect);
  if (!shown_.figure) {
    heading(context, state.making ? "Reading …" : "This cannot be shown");
    ImGui::PushTextWrapPos(0);
    if (!state.making) dim_text(context, shown_.error);
    ImGui::PopTextWrapPos();
    end_panel();
    return;
  }
  const float width = ImGui::GetContentRegionAvail().x;
  ImGui::PushFont(context.fonts.title);
  ImGui::PushTextWrapPos(0);
  ImGui::TextUnformatted(shown_.figure->title.c_str());
  ImGui::PopTextWrapPos();
  ImGui::PopFont();
  dim_text(context,
           fit_text(context.fonts.small, state.making ? "reading …" : shown_.figure->caption, width));
  if (ImGui::IsItemHovered() && !shown_.figure->caption.empty())
    ImGui::SetTooltip("%s", shown_.figure->caption.c_str());
  draw_figure_settings(context, shown_.key.name);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const Rect inner{at.x, at.y, width, rect.bottom() - ImGui::GetStyle().WindowPadding.y - at.y};
  if (inner.h > context.px(40)) draw_panels(context, inner);
  end_panel();
}

nlohmann::ordered_json FigureView::describe() const {
  nlohmann::ordered_json json;
  json["figure"] = shown_.key.name;
  json["error"] = shown_.error;
  json["panels"] = nlohmann::ordered_json::array();
  for (const auto& plot : plots_) {
    const PlotView& view = plot->view();
    nlohmann::ordered_json panel;
    panel["id"] = plot->panel().id;
    panel["limits"] = {view.x_low(), view.x_high(), view.y_low(), view.y_high()};
    if (const auto& map = plot->panel().heatmap) panel["shape"] = {map->values.rows(), map->values.cols()};
    for (const auto& series : plot->panel().points) panel["n_points"][series.id] = series.x.size();
    if (const auto& order = plot->panel().order) panel["tokens"] = order->token;
    json["panels"].push_back(panel);
  }
  return json;
}

}  // namespace keyscope::window
