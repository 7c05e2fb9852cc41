#include "app/panels/keyspace_panel.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/axis_ticks.hpp"
#include "app/panels/markers.hpp"
#include "app/panels/plot_axes.hpp"
#include "app/panels/token_tooltip.hpp"
#include "app/session/token_facts.hpp"

namespace keyscope::window {
namespace {

constexpr float kPickRadiusPx = 9;
constexpr float kLeastHeightForLegend = 150;
constexpr float kLeastHeightForAxisNames = 120;

bool exceeds(const session::Extent& inner, const session::Extent& outer) {
  return inner.x_low < outer.x_low || inner.x_high > outer.x_high || inner.y_low < outer.y_low ||
         inner.y_high > outer.y_high;
}

}  // namespace

void KeyspacePanel::fit() {
  if (made_.points) view_.fit(made_.points->extent, true);
}

void KeyspacePanel::update_panel(const PanelContext& context) {
  const auto& state = context.state();
  Made now{state.points, state.selection.block};
  if (now.points && now.block >= now.points->n_blocks()) now.block = now.points->n_blocks() - 1;
  if (now == made_) return;
  made_ = std::move(now);
  panel_ = made_.points ? session::keyspace_panel(*made_.points, made_.block) : figures::Panel();
  index_.build(panel_, legend_.hidden());
  ++revision_;
}

// A new head is fitted; a live one that outgrew the view as well, unless the user has moved it.
void KeyspacePanel::update_view(const PanelContext& context) {
  if (!made_.points) return;
  const session::HeadKey& head = made_.points->head;
  const void* recording = context.state().recording.get();
  const bool other =
      recording != fitted_recording_ || head.layer != fitted_layer_ || head.kv_head != fitted_kv_head_;
  const bool outgrown = !view_.moved() && exceeds(made_.points->extent, fitted_extent_);
  if (!other && !outgrown) return;
  fitted_recording_ = recording;
  fitted_layer_ = head.layer;
  fitted_kv_head_ = head.kv_head;
  fitted_extent_ = made_.points->extent;
  fit();
}

void KeyspacePanel::draw_title(PanelContext& context) {
  const auto& state = context.state();
  ImGui::PushFont(context.fonts.title);
  ImGui::TextUnformatted(
      fmt::format("Layer {}, KV head {}", state.selection.layer, state.selection.kv_head).c_str());
  ImGui::PopFont();
  const auto& plan = state.run().plan;
  std::string detail = plan.policy == "none"
                           ? std::string("none: full cache")
                           : fmt::format("{}, N = {}", plan.name, figures::format_count(plan.budget));
  if (plan.replayed) detail += ", replayed on full-cache keys";
  if (plan.oracle) detail += plan.replayed ? " by an oracle" : ", by an oracle";
  if (state.reading) detail += "  ·  reading …";
  // Beside the title where most of it fits there, else below.
  ImGui::SameLine();
  const float beside = ImGui::GetContentRegionAvail().x;
  if (beside >= std::min(context.px(150), text_size(context.fonts.small, detail).x))
    ImGui::SetCursorPosY(ImGui::GetCursorPosY() + context.px(4));
  else
    ImGui::NewLine();
  dim_text(context, fit_text(context.fonts.small, detail, ImGui::GetContentRegionAvail().x));
}

void KeyspacePanel::draw_plot(PanelContext& context, const Rect& plot, bool names) {
  view_.set_frame(std::round(plot.x), std::round(plot.y), std::round(plot.w), std::round(plot.h));
  ImGui::SetCursorScreenPos({view_.left(), view_.top()});
  ImGui::InvisibleButton("plot", {view_.width(), view_.height()},
                         ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight |
                             ImGuiButtonFlags_MouseButtonMiddle);
  context.widgets["plot"] = {view_.left(), view_.top(), view_.width(), view_.height()};
  handle_mouse(context);

  const PlotGrid grid = draw_plot_axes(context, panel_, view_, names);
  layer_.draw(panel_, revision_, view_, grid, context.theme, legend_.hidden(), context.scale);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 low(view_.left(), view_.top());
  const ImVec2 high(view_.left() + view_.width(), view_.top() + view_.height());
  list.AddImage(texture_id(layer_.texture()), low, high, {0, 1}, {1, 0});  // OpenGL's rows go upwards
  list.AddRect(low, high, context.theme.border);
  list.PushClipRect(low, high, true);
  draw_means(context);
  if (const auto held = context.state().locked) draw_token(context, *held, true);
  if (const auto token = context.state().hovered) draw_token(context, *token, false);
  mouse_.draw(context);
  list.PopClipRect();
}

void KeyspacePanel::handle_mouse(PanelContext& context) {
  const PlotMouse::Outcome mouse = mouse_.handle(context, view_);
  if (mouse.fit) fit();
  if (mouse.menu) ImGui::OpenPopup("plot_menu");
  draw_menu(context);
  if (!mouse.over) return;
  const auto token = index_.nearest(view_, *mouse.over, context.px(kPickRadiusPx));
  if (token) context.hovered = *token;
  if (mouse.clicked) context.session.lock(token ? std::optional<std::int64_t>(*token) : std::nullopt);
  if (token) draw_tooltip(context, *token);
}

void KeyspacePanel::draw_menu(PanelContext& context) {
  if (!ImGui::BeginPopup("plot_menu")) return;
  if (ImGui::MenuItem("Fit the view", "double-click")) fit();
  if (ImGui::MenuItem("Copy the command for this figure")) {
    const auto& state = context.state();
    ImGui::SetClipboardText(fmt::format("keyscope figure '{}' keyspace {} --out keyspace.svg",
                                        state.info->source,
                                        session::selection_options(*state.info, state.selection))
                                .c_str());
  }
  ImGui::EndPopup();
}

void KeyspacePanel::draw_means(PanelContext& context) const {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImU32 outline = context.theme.light ? IM_COL32_WHITE : IM_COL32(10, 13, 18, 255);
  for (const figures::PointSeries& series : panel_.points) {
    const bool sprite = series.marker == figures::Marker::kDisc || series.marker == figures::Marker::kRing;
    if (sprite || series.x.empty() || legend_.hides(series.id)) continue;
    const Pixel at = view_.to_pixel(series.x[0], series.y[0]);
    draw_marker(list, series.marker, {at.x, at.y}, context.px(series.size_px), to_colour(series.colour),
                outline);
  }
}

// The hovered or held token, on top of everything and larger, in its own shape.
void KeyspacePanel::draw_token(PanelContext& context, std::int64_t token, bool held) const {
  if (!made_.points || token >= made_.points->n_tokens || made_.block < 0) return;
  if (token >= made_.points->seen[static_cast<std::size_t>(made_.block)]) return;
  const std::int32_t gone = made_.points->trace.evicted_at[static_cast<std::size_t>(token)];
  const bool evicted = gone >= 0 && gone <= made_.block;
  const Pixel at = view_.to_pixel(made_.points->coordinates(token, 0), made_.points->coordinates(token, 1));
  ImDrawList& list = *ImGui::GetWindowDrawList();
  draw_marker(list, evicted ? figures::Marker::kRing : figures::Marker::kDisc, {at.x, at.y}, context.px(12),
              to_colour(evicted ? figures::kOrange : figures::kBlue), context.theme.text);
  if (held) list.AddCircle({at.x, at.y}, context.px(11), context.theme.text, 0, context.px(1.5F));
}

void KeyspacePanel::draw_tooltip(PanelContext& context, std::int64_t token) const {
  if (!made_.points || made_.block < 0 || token >= made_.points->n_tokens) return;
  draw_token_tooltip(context, session::token_facts(*context.state().info, *made_.points, made_.block, token),
                     {view_.left(), view_.top(), view_.width(), view_.height()});
}

nlohmann::ordered_json KeyspacePanel::describe() const {
  nlohmann::ordered_json json;
  json["limits"] = {view_.x_low(), view_.x_high(), view_.y_low(), view_.y_high()};
  json["hidden"] = legend_.hidden();
  json["points_drawn"] = points_drawn();
  for (const figures::PointSeries& series : panel_.points) {
    json["n_points"][series.id] = series.x.size();
    if (series.x.empty()) continue;
    const Pixel at = view_.to_pixel(series.x.back(), series.y.back());
    json["last_point"][series.id] = {at.x, at.y, series.token.empty() ? -1 : series.token.back()};
  }
  return json;
}

void KeyspacePanel::draw(PanelContext& context, const Rect& rect) {
  update_panel(context);
  begin_panel("keyspace", rect);
  draw_title(context);
  if (!made_.points) {
    dim_text(context, context.state().reading ? "reading the head's keys …" : "nothing was read yet");
    end_panel();
    return;
  }
  update_view(context);
  // The plot comes first: without the legend, and then without the axes' names, where it would be too small.
  if (rect.bottom() - ImGui::GetCursorScreenPos().y >= context.px(kLeastHeightForLegend) &&
      legend_.draw(context, panel_))
    index_.build(panel_, legend_.hidden());
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool names = rect.bottom() - at.y >= context.px(kLeastHeightForAxisNames);
  const AxisMargins margins = axis_margins(context, panel_, view_, names);
  const Rect plot{at.x + margins.left, at.y + context.px(2),
                  rect.right() - context.px(14) - at.x - margins.left,
                  rect.bottom() - margins.below - at.y - context.px(2)};
  if (plot.w > context.px(40) && plot.h > context.px(20)) draw_plot(context, plot, names);
  end_panel();
}

}  // namespace keyscope::window
