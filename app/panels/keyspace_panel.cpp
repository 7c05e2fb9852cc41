#include "app/panels/keyspace_panel.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/axis_ticks.hpp"
#include "app/panels/markers.hpp"
#include "app/panels/token_tooltip.hpp"
#include "app/session/token_facts.hpp"

namespace keyscope::window {
namespace {

constexpr float kPickRadiusPx = 9;
constexpr float kDragThresholdPx = 4;
constexpr float kLeastHeightForLegend = 150;
constexpr float kLeastHeightForAxisNames = 120;
constexpr double kWheelFactor = 1.18;

Pixel to_pixel(ImVec2 at) { return {at.x, at.y}; }

bool exceeds(const session::Extent& inner, const session::Extent& outer) {
  return inner.x_low < outer.x_low || inner.x_high > outer.x_high || inner.y_low < outer.y_low ||
         inner.y_high > outer.y_high;
}

}  // namespace

bool KeyspacePanel::hides(const std::string& id) const {
  return std::ranges::find(hidden_, id) != hidden_.end();
}

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
  index_.build(panel_, hidden_);
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

// One clickable entry; on the same line as the one before it where it fits.
bool KeyspacePanel::legend_entry(PanelContext& context, const figures::PointSeries& series, float right) {
  const float marker = context.px(10);
  const ImVec2 text = text_size(context.fonts.small, series.label);
  const ImVec2 size(marker + context.px(6) + text.x, std::max(text.y, marker) + context.px(4));
  if (ImGui::GetItemRectMax().x + context.px(16) + size.x < right) ImGui::SameLine(0, context.px(16));
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool clicked = ImGui::InvisibleButton(series.id.c_str(), size);
  const bool off = hides(series.id);
  const bool hovered = ImGui::IsItemHovered();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 centre(at.x + 0.5F * marker, at.y + 0.5F * size.y);
  draw_marker(list, series.marker, centre, marker, to_colour(series.colour, off ? 0.35F : 1), 0);
  const ImU32 colour = off ? context.theme.dim : context.theme.text;
  const ImVec2 text_at(at.x + marker + context.px(6), at.y + 0.5F * (size.y - text.y));
  draw_text(list, context.fonts.small, text_at, off ? with_alpha(colour, 0.6F) : colour, series.label);
  if (hovered || off) {
    const float y = off ? text_at.y + 0.55F * text.y : text_at.y + text.y;
    list.AddLine({text_at.x, y}, {text_at.x + text.x, y}, context.theme.dim);
  }
  if (hovered) ImGui::SetTooltip(off ? "Click to show" : "Click to hide");
  context.widgets["legend_" + series.id] = {at.x, at.y, size.x, size.y};
  return clicked;
}

void KeyspacePanel::draw_legend(PanelContext& context) {
  ImGui::Dummy({0, 0});
  const float right = ImGui::GetWindowPos().x + ImGui::GetWindowContentRegionMax().x;
  // Retained first: the order of reading, not of drawing.
  std::vector<const figures::PointSeries*> entries;
  for (const auto& series : panel_.points)
    if (series.id == "retained") entries.push_back(&series);
  for (const auto& series : panel_.points)
    if (series.id != "retained") entries.push_back(&series);
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() - ImGui::GetStyle().ItemSpacing.y);
  bool changed = false;
  bool first = true;
  for (const auto* series : entries) {
    const bool clicked = legend_entry(context, *series, first ? 0 : right);
    first = false;
    if (!clicked) continue;
    if (hides(series->id))
      std::erase(hidden_, series->id);
    else
      hidden_.push_back(series->id);
    changed = true;
  }
  if (!changed) return;
  index_.build(panel_, hidden_);
  context.wants_frames = true;
}

// Ticks and labels around the plot; returns where the grid's lines lie inside it.
PlotGrid KeyspacePanel::draw_axes(PanelContext& context, bool names) const {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  ImFont* font = context.fonts.small;
  PlotGrid grid;
  const float bottom = view_.top() + view_.height();
  const int n_x = std::max(2, static_cast<int>(view_.width() / context.px(90)));
  for (const figures::Tick& tick : figures::linear_ticks(view_.x_low(), view_.x_high(), n_x)) {
    const float x = view_.to_pixel(tick.value, 0).x;
    grid.x_px.push_back(static_cast<int>(std::floor(x - view_.left())));
    draw_text(list, font, {x - 0.5F * text_size(font, tick.label).x, bottom + context.px(5)},
              context.theme.dim, tick.label);
  }
  const int n_y = std::max(2, static_cast<int>(view_.height() / context.px(70)));
  for (const figures::Tick& tick : figures::linear_ticks(view_.y_low(), view_.y_high(), n_y)) {
    const float y = view_.to_pixel(0, tick.value).y;
    grid.y_px.push_back(static_cast<int>(std::floor(y - view_.top())));
    const ImVec2 size = text_size(font, tick.label);
    draw_text(list, font, {view_.left() - context.px(6) - size.x, y - 0.5F * size.y}, context.theme.dim,
              tick.label);
  }
  if (!names) return grid;
  const ImVec2 x_size = text_size(font, panel_.x.label);
  draw_text(list, font, {view_.left() + 0.5F * (view_.width() - x_size.x), bottom + context.px(22)},
            context.theme.text, panel_.x.label);
  draw_vertical_text(list, font, {view_.left() - context.px(46), view_.top() + 0.5F * view_.height()},
                     context.theme.text, panel_.y.label);
  return grid;
}

void KeyspacePanel::draw_plot(PanelContext& context, const Rect& plot, bool names) {
  view_.set_frame(std::round(plot.x), std::round(plot.y), std::round(plot.w), std::round(plot.h));
  ImGui::SetCursorScreenPos({view_.left(), view_.top()});
  ImGui::InvisibleButton("plot", {view_.width(), view_.height()},
                         ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight |
                             ImGuiButtonFlags_MouseButtonMiddle);
  context.widgets["plot"] = {view_.left(), view_.top(), view_.width(), view_.height()};
  handle_mouse(context);

  const PlotGrid grid = draw_axes(context, names);
  layer_.draw(panel_, revision_, view_, grid, context.theme, hidden_, context.scale);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 low(view_.left(), view_.top());
  const ImVec2 high(view_.left() + view_.width(), view_.top() + view_.height());
  const auto texture = reinterpret_cast<ImTextureID>(static_cast<std::uintptr_t>(layer_.texture()));
  list.AddImage(texture, low, high, {0, 1}, {1, 0});  // OpenGL's rows go upwards
  list.AddRect(low, high, context.theme.border);
  list.PushClipRect(low, high, true);
  draw_means(context);
  if (const auto held = context.state().locked) draw_token(context, *held, true);
  if (const auto token = context.state().hovered) draw_token(context, *token, false);
  if (box_from_) {
    const ImVec2 mouse = ImGui::GetMousePos();
    list.AddRectFilled({box_from_->x, box_from_->y}, mouse, with_alpha(context.theme.accent, 0.15F));
    list.AddRect({box_from_->x, box_from_->y}, mouse, context.theme.accent);
  }
  list.PopClipRect();
}

void KeyspacePanel::handle_mouse(PanelContext& context) {
  const ImGuiIO& io = ImGui::GetIO();
  const Pixel mouse = to_pixel(io.MousePos);
  const bool hovered = ImGui::IsItemHovered();
  if (hovered && io.MouseWheel != 0) view_.zoom_at(mouse, std::pow(kWheelFactor, io.MouseWheel));
  if (hovered && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) fit();

  if (ImGui::IsItemActive() && ImGui::IsMouseDragging(ImGuiMouseButton_Left, context.px(kDragThresholdPx))) {
    // By whole pixels, also where the mouse moves by fractions: most of the picture can then be kept.
    const Pixel moved{std::round(mouse.x - io.MouseClickedPos[0].x),
                      std::round(mouse.y - io.MouseClickedPos[0].y)};
    const Pixel before = dragged_.value_or(Pixel{});
    view_.pan(moved.x - before.x, moved.y - before.y);
    dragged_ = moved;
  }
  if (ImGui::IsItemActive() && ImGui::IsMouseDragging(ImGuiMouseButton_Right, context.px(kDragThresholdPx)) &&
      !box_from_)
    box_from_ = to_pixel(io.MouseClickedPos[ImGuiMouseButton_Right]);
  if (box_from_ && !io.MouseDown[ImGuiMouseButton_Right]) {
    view_.zoom_to(*box_from_, mouse);
    box_from_.reset();
  } else if (hovered && ImGui::IsMouseReleased(ImGuiMouseButton_Right)) {
    ImGui::OpenPopup("plot_menu");
  }
  draw_menu(context);

  const bool dragging = dragged_ && io.MouseDown[ImGuiMouseButton_Left];
  if (hovered && !dragging && !box_from_) {
    const auto token = index_.nearest(view_, mouse, context.px(kPickRadiusPx));
    if (token) context.hovered = *token;
    if (ImGui::IsMouseReleased(ImGuiMouseButton_Left) && !dragged_)
      context.session.lock(token ? std::optional<std::int64_t>(*token) : std::nullopt);
    if (token) draw_tooltip(context, *token);
  }
  if (!io.MouseDown[ImGuiMouseButton_Left]) dragged_.reset();
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
    if (sprite || series.x.empty() || hides(series.id)) continue;
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
  json["hidden"] = hidden_;
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
  if (rect.bottom() - ImGui::GetCursorScreenPos().y >= context.px(kLeastHeightForLegend))
    draw_legend(context);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool names = rect.bottom() - at.y >= context.px(kLeastHeightForAxisNames);
  const float left = context.px(names ? 58 : 40);
  const float below = context.px(names ? 42 : 26);
  const Rect plot{at.x + left, at.y + context.px(2), rect.right() - context.px(14) - at.x - left,
                  rect.bottom() - below - at.y - context.px(2)};
  if (plot.w > context.px(40) && plot.h > context.px(20)) draw_plot(context, plot, names);
  end_panel();
}

}  // namespace keyscope::window
