#include "app/panels/keyspace_panel.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/figures/colour_map.hpp"
#include "app/panels/colour_bar.hpp"
#include "app/panels/keyspace_title.hpp"
#include "app/panels/markers.hpp"
#include "app/panels/plot_axes.hpp"
#include "app/panels/space_frame.hpp"
#include "app/panels/token_tooltip.hpp"
#include "app/session/token_facts.hpp"

namespace keyscope::window {
namespace {

constexpr float kPickRadiusPx = 9;
constexpr float kLeastHeightForLegend = 150;
constexpr float kLeastHeightForAxisNames = 120;
constexpr double kUpright = 0.75;
constexpr double kTurnPerPixel = 0.008;  // radians

bool exceeds(const session::Extent& inner, const session::Extent& outer) {
  return inner.x_low < outer.x_low || inner.x_high > outer.x_high || inner.y_low < outer.y_low ||
         inner.y_high > outer.y_high;
}

session::Extent both(const session::Extent& a, const session::Extent& b) {
  return {std::min(a.x_low, b.x_low), std::max(a.x_high, b.x_high), std::min(a.y_low, b.y_low),
          std::max(a.y_high, b.y_high)};
}

std::vector<std::string> not_hovered(std::vector<std::string> hidden) {
  hidden.emplace_back("queries");  // a query is no key, and its token's key lies elsewhere
  return hidden;
}

}  // namespace

void KeyspacePanel::fit() {
  if (made_.picture) view_.fit(fitted_extent_, seen_.equal_aspect);
}

// What all that is shown of the head lies in: at every block, where points stand still.
session::Extent KeyspacePanel::extent_of_picture() const {
  // The longest axis lies level at first, so less is asked for upwards.
  if (in_space()) return {-box_.radius, box_.radius, -kUpright * box_.radius, kUpright * box_.radius};
  const bool anchored = made_.picture->key.look.projection == figures::Projection::kAnchor;
  return anchored ? session::points_extent(panel_) : made_.picture->points->extent;
}

void KeyspacePanel::turn() {
  if (in_space()) session::turn_points(panel_, box_, orbit_, seen_);
  index_is_old_ = true;
  ++revision_;
}

void KeyspacePanel::update_panel(const PanelContext& context) {
  const auto& state = context.state();
  Made now{state.picture, state.tokens};
  if (now == made_) return;
  made_ = std::move(now);
  if (!made_.picture) {
    panel_ = seen_ = {};
    return;
  }
  const figures::Panel& whole = made_.picture->panel;
  panel_ = made_.tokens ? session::fade_unselected(whole, *made_.tokens) : whole;
  seen_ = panel_;
  if (in_space() && box_of_ != made_.picture->points) {
    box_of_ = made_.picture->points;
    box_ = session::space_box(*box_of_);
  }
  extent_ = extent_of_picture();
  turn();
}

// A new head or projection is fitted; what outgrew the view as well, unless the user has moved it.
void KeyspacePanel::update_view(const PanelContext& context) {
  if (!made_.picture) return;
  const session::HeadKey& head = made_.picture->key.head;
  const Fitted now{context.state().recording.get(), head.layer, head.kv_head,
                   made_.picture->key.look.projection};
  const bool other = now != fitted_;
  if (other)
    fitted_extent_ = extent_;
  else if (exceeds(extent_, fitted_extent_))
    fitted_extent_ = both(extent_, fitted_extent_);
  else
    return;
  fitted_ = now;
  if (other || !view_.moved()) fit();
}

// Keys without a place, and those that the legend hides, are not shown.
void KeyspacePanel::note_shown(PanelContext& context) const {
  const session::KeyspacePicture& picture = *made_.picture;
  if (picture.key.block < 0) return;
  std::int64_t n_shown = 0;
  for (const figures::PointSeries& series : picture.panel.points)
    if (!series.token.empty() && series.id != "queries" && !legend_.hides(series.id))
      n_shown += std::ssize(series.token);
  if (n_shown < picture.points->seen[static_cast<std::size_t>(picture.key.block)])
    context.n_keys_shown = n_shown;
}

void KeyspacePanel::update_index() {
  if (!index_is_old_) return;
  index_.build(seen_, not_hovered(legend_.hidden()));
  index_is_old_ = false;
}

void KeyspacePanel::draw_layer(PanelContext& context, bool names) {
  const PlotGrid grid = in_space() ? PlotGrid{} : draw_plot_axes(context, seen_, view_, names);
  layer_.draw(seen_, revision_, view_, grid, context.theme, legend_.hidden(), context.scale);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 low(view_.left(), view_.top());
  const ImVec2 high(view_.left() + view_.width(), view_.top() + view_.height());
  list.AddImage(texture_id(layer_.texture()), low, high, {0, 1}, {1, 0});  // OpenGL's rows go upwards
  list.AddRect(low, high, context.theme.border);
  list.PushClipRect(low, high, true);
  if (in_space()) draw_space_frame(context, seen_, box_, orbit_, view_);
  draw_means(context);
  if (const auto held = context.state().locked) draw_token(context, *held, true);
  if (const auto token = context.state().hovered) draw_token(context, *token, false);
  mouse_.draw(context);
  list.PopClipRect();
}

void KeyspacePanel::draw_plot(PanelContext& context, const Rect& plot, bool names) {
  view_.set_frame(std::round(plot.x), std::round(plot.y), std::round(plot.w), std::round(plot.h));
  ImGui::SetCursorScreenPos({view_.left(), view_.top()});
  ImGui::InvisibleButton("plot", {view_.width(), view_.height()},
                         ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight |
                             ImGuiButtonFlags_MouseButtonMiddle);
  context.widgets["plot"] = {view_.left(), view_.top(), view_.width(), view_.height()};
  handle_mouse(context);
  draw_layer(context, names);
}

void KeyspacePanel::handle_mouse(PanelContext& context) {
  const PlotMouse::Outcome mouse = mouse_.handle(context, view_, {.turns = in_space(), .selects = true});
  if (mouse.fit) fit();
  if (mouse.turned.x != 0 || mouse.turned.y != 0) {
    orbit_.drag(mouse.turned.x * kTurnPerPixel, mouse.turned.y * kTurnPerPixel);
    turn();
  }
  if (!mouse.outline.empty()) {
    std::vector<session::OutlinePoint> outline;
    for (const Pixel& at : mouse.outline) {
      const PlotPoint point = view_.to_plane(at);
      outline.push_back({point.x, point.y});
    }
    context.session.select_tokens(session::tokens_inside(seen_, legend_.hidden(), outline));
    context.wants_frames = true;
  }
  if (mouse.menu) ImGui::OpenPopup("plot_menu");
  draw_menu(context);
  if (!mouse.over) return;
  update_index();
  const auto token = index_.nearest(view_, *mouse.over, context.px(kPickRadiusPx));
  if (token) context.hovered = *token;
  if (mouse.clicked) context.session.lock(token ? std::optional<std::int64_t>(*token) : std::nullopt);
  if (token) draw_tooltip(context, *token);
}

void KeyspacePanel::draw_menu(PanelContext& context) {
  if (!ImGui::BeginPopup("plot_menu")) return;
  const auto& state = context.state();
  if (ImGui::MenuItem("Fit the view", "double-click")) fit();
  if (in_space() && ImGui::MenuItem("Turn back")) {
    orbit_ = {};
    turn();
  }
  if (ImGui::MenuItem("Drop the selected tokens", "Esc", false, state.tokens != nullptr))
    context.session.select_tokens({});
  if (ImGui::MenuItem("Copy the command for this figure"))
    ImGui::SetClipboardText(fmt::format("keyscope figure '{}' keyspace {}{} --out keyspace.svg",
                                        state.info->source,
                                        session::selection_options(*state.info, state.selection),
                                        session::look_options(state.look))
                                .c_str());
  ImGui::EndPopup();
}

void KeyspacePanel::draw_means(PanelContext& context) const {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImU32 outline = context.theme.light ? IM_COL32_WHITE : IM_COL32(10, 13, 18, 255);
  for (const figures::PointSeries& series : seen_.points) {
    if (PointLayer::draws(series) || series.x.empty() || legend_.hides(series.id)) continue;
    const Pixel at = view_.to_pixel(series.x[0], series.y[0]);
    draw_marker(list, series.marker, {at.x, at.y}, context.px(series.size_px), to_colour(series.colour),
                outline);
  }
}

// Of the key series, whose tokens ascend.
std::optional<KeyspacePanel::Found> KeyspacePanel::find(std::int64_t token) const {
  for (const figures::PointSeries& series : seen_.points) {
    if (series.id == "queries") continue;
    const auto at = std::ranges::lower_bound(series.token, static_cast<std::int32_t>(token));
    if (at != series.token.end() && *at == token)
      return Found{&series, static_cast<std::size_t>(at - series.token.begin())};
  }
  return std::nullopt;
}

// The hovered or held token, on top of everything and larger, in its own shape.
void KeyspacePanel::draw_token(PanelContext& context, std::int64_t token, bool held) const {
  const auto found = find(token);
  if (!found) return;
  const Pixel at = view_.to_pixel(found->series->x[found->at], found->series->y[found->at]);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const figures::PointSeries& series = *found->series;
  const float value = seen_.scale && !series.value.empty() ? series.value[found->at] : 0;
  const bool valued = seen_.scale && !series.value.empty() && !std::isnan(value);
  const figures::Colour colour = valued ? figures::colour_of(*seen_.scale, value) : series.colour;
  draw_marker(list, series.marker, {at.x, at.y}, context.px(12), ink_colour(context.theme, colour),
              context.theme.text);
  if (held) list.AddCircle({at.x, at.y}, context.px(11), context.theme.text, 0, context.px(1.5F));
}

void KeyspacePanel::draw_tooltip(PanelContext& context, std::int64_t token) const {
  const session::KeyspacePicture& picture = *made_.picture;
  if (picture.key.block < 0 || token >= picture.points->n_tokens) return;
  draw_token_tooltip(context,
                     session::token_facts(*context.state().info, *picture.points, picture.key.block, token),
                     {view_.left(), view_.top(), view_.width(), view_.height()});
}

nlohmann::ordered_json KeyspacePanel::describe() const {
  nlohmann::ordered_json json;
  json["limits"] = {view_.x_low(), view_.x_high(), view_.y_low(), view_.y_high()};
  json["hidden"] = legend_.hidden();
  json["points_drawn"] = points_drawn();
  json["orbit"] = {orbit_.azimuth, orbit_.elevation};
  if (made_.picture) {
    json["projection"] = figures::id_of(made_.picture->key.look.projection);
    json["colour"] = figures::id_of(made_.picture->key.look.colour);
  }
  std::map<std::string, std::size_t> n_points;
  for (const figures::PointSeries& series : seen_.points) {
    json["n_points"][series.id] = n_points[series.id] += series.x.size();  // faded ones come first
    if (series.x.empty()) continue;
    const Pixel at = view_.to_pixel(series.x.back(), series.y.back());
    json["last_point"][series.id] = {at.x, at.y, series.token.empty() ? -1 : series.token.back()};
  }
  return json;
}

void KeyspacePanel::draw(PanelContext& context, const Rect& rect) {
  update_panel(context);
  begin_panel("keyspace", rect);
  draw_keyspace_title(context, made_.picture.get());
  if (!made_.picture) {
    dim_text(context, context.state().reading ? "reading the head's keys …" : "nothing was read yet");
    end_panel();
    return;
  }
  update_view(context);
  note_shown(context);
  // The plot comes first: without the legend, and then without the axes' names, where it would be too small.
  if (rect.bottom() - ImGui::GetCursorScreenPos().y >= context.px(kLeastHeightForLegend) &&
      legend_.draw(context, made_.picture->panel))
    index_is_old_ = true;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool names = rect.bottom() - at.y >= context.px(kLeastHeightForAxisNames);
  const AxisMargins margins =
      in_space() ? AxisMargins{0, context.px(8)} : axis_margins(context, seen_, view_, names);
  Rect plot{at.x + margins.left, at.y + context.px(2), rect.right() - context.px(14) - at.x - margins.left,
            rect.bottom() - margins.below - at.y - context.px(2)};
  const float bar = seen_.scale ? colour_bar_width(context, *seen_.scale, plot.h) : 0;
  plot.w -= bar;
  if (plot.w > context.px(40) && plot.h > context.px(20)) {
    draw_plot(context, plot, names);
    if (seen_.scale) draw_colour_bar(context, *seen_.scale, {plot.right(), plot.y, bar, plot.h});
  }
  end_panel();
}

}  // namespace keyscope::window
