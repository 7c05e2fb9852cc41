#include <algorithm>
#include <cstddef>
#include <memory>

#include <fmt/format.h>

#include "app/display/plot_legend.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/labels.hpp"
#include "app/panels/live_form.hpp"
#include "app/panels/panel_context.hpp"
#include "app/panels/panels.hpp"
#include "app/panels/tiles.hpp"
#include "base/text.hpp"

namespace keyscope::window {

namespace {

// The small button at the right end of a run's row that puts the run beside the selected one, or takes it
// away: drawn where it is on, and where the row is pointed at. The row's own button takes its clicks.
//   nth: of the session's choices; row: of the list
class BesideButton {
 public:
  BesideButton(PanelContext& context, std::size_t nth, const Rect& row);

  float width() const { return box_.width; }  // 0: the run is the selected one
  bool under_mouse() const;
  void draw(PanelContext& context, bool row_hovered) const;

 private:
  const session::RunChoice& choice_;
  std::size_t nth_;
  Rect box_;
  bool on_;
};

BesideButton::BesideButton(PanelContext& context, std::size_t nth, const Rect& row)
    : choice_(context.state().choices[nth]), nth_(nth) {
  const auto& state = context.state();
  const bool selected = choice_.id == session::RunId{0, state.selection.run};
  const float size = selected ? 0 : row.height;
  box_ = {row.right() - size, row.y, size, row.height};
  on_ = std::ranges::find(state.beside, choice_.id) != state.beside.end();
  if (!selected) context.widgets[fmt::format("beside_{}", nth)] = box_;
}

bool BesideButton::under_mouse() const {
  return box_.width > 0 && ImGui::IsMouseHoveringRect({box_.x, box_.y}, {box_.right(), box_.bottom()});
}

// Two tiles, of which the second is this run's.
void BesideButton::draw(PanelContext& context, bool row_hovered) const {
  if (box_.empty()) return;
  const bool hovered = row_hovered && under_mouse();
  if (hovered) {
    const std::string keys = nth_ < 9 ? fmt::format("  Shift + {}", nth_ + 1) : "";
    const std::string does = on_ ? "No longer beside" : "Show beside the selected run";
    const bool refused = !on_ && !choice_.refusal.empty();
    ImGui::SetTooltip("%s",
                      refused ? ("Cannot stand beside: " + choice_.refusal).c_str() : (does + keys).c_str());
  }
  if (!on_ && !row_hovered) return;
  const float w = context.px(6), h = context.px(11), gap = context.px(2);
  const ImVec2 first(box_.x + 0.5F * (box_.width - 2 * w - gap), box_.y + 0.5F * (box_.height - h));
  const ImVec2 second(first.x + w + gap, first.y);
  const ImU32 idle = with_alpha(context.theme.dim, choice_.refusal.empty() ? 0.9F : 0.35F);
  const ImU32 colour = on_ ? context.theme.accent : hovered ? context.theme.text : idle;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRect(first, {first.x + w, first.y + h}, colour, context.px(1));
  if (on_)
    list.AddRectFilled(second, {second.x + w, second.y + h}, colour, context.px(1));
  else
    list.AddRect(second, {second.x + w, second.y + h}, colour, context.px(1));
}

constexpr float kRowHeight = 30;
constexpr float kTabHeight = 52;  // with what is around the list

std::string run_detail(const recording::RecordingInfo& info, const recording::RunInfo& run) {
  if (run.blocks_done == 0) return "waiting";
  if (run.n_tokens < info.n_prompt())
    return fmt::format("{:.0f} %", 100.0 * static_cast<double>(run.n_tokens) /
                                       static_cast<double>(std::max<std::int64_t>(1, info.n_prompt())));
  return run.plan.policy == "none" ? std::string("full cache")
                                   : fmt::format("N = {}", format_count(run.plan.budget));
}

// The run of a row, of whichever recording.
struct Row {
  std::shared_ptr<const recording::RecordingInfo> info;
  const recording::RunInfo* run = nullptr;
};

Row row_of(const session::SessionState& state, const session::RunId& id) {
  const auto info = id.source == 0 ? state.info : state.earlier[id.source - 1].recording->info();
  return {info, &info->runs[id.run]};
}

std::string detail_of(const Row& row, const session::RunChoice& choice) {
  std::string detail = run_detail(*row.info, *row.run);
  if (choice.id.source == 0) return detail;
  return choice.refusal.empty() ? "earlier, " + detail : choice.refusal;
}

// Runs of the recording are selected by a click, and put beside by one on the button or with Shift; earlier
// ones can only stand beside.
void click(PanelContext& context, const session::RunChoice& choice, bool on_button) {
  if (on_button || ImGui::GetIO().KeyShift || choice.id.source > 0)
    context.session.toggle_beside(choice.id);
  else
    context.session.select_run(choice.id.run);
}

// Scrolls the list to the row at the cursor when it is the selected one for the first time.
void scroll_to_once(int nth) {
  constexpr ImGuiID kShown = 1;
  ImGuiStorage& storage = *ImGui::GetStateStorage();  // the list's
  if (storage.GetInt(kShown, -1) == nth) return;
  storage.SetInt(kShown, nth);
  ImGui::SetScrollHereY();
}

void draw_run_row(PanelContext& context, std::size_t nth) {
  const auto& state = context.state();
  const session::RunChoice choice = state.choices[nth];
  const Row shown = row_of(state, choice.id);
  const auto& run = *shown.run;
  const bool selected = choice.id == session::RunId{0, state.selection.run};
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size(ImGui::GetContentRegionAvail().x, context.px(kRowHeight - 2));
  const BesideButton beside(context, nth, {at.x, at.y, size.x, size.y});
  ImGui::PushID(static_cast<int>(nth));
  const bool clicked = ImGui::InvisibleButton("run", size);
  const bool hovered = ImGui::IsItemHovered();
  if (selected) scroll_to_once(static_cast<int>(nth));
  ImGui::PopID();
  context.widgets[fmt::format("run_{}", nth)] = {at.x, at.y, size.x, size.y};

  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (selected || hovered)
    list.AddRectFilled(at, {at.x + size.x, at.y + size.y},
                       selected ? context.theme.selected : context.theme.hover, context.px(4));
  if (selected)
    list.AddRectFilled(at, {at.x + context.px(3), at.y + size.y}, context.theme.accent, context.px(2));
  const Font& small = context.fonts.small;
  const float text_y = at.y + 0.5F * (size.y - context.fonts.regular.size);
  const float small_y = at.y + 0.5F * (size.y - small.size);
  if (nth < 9)
    draw_text(list, small, {at.x + context.px(10), small_y}, context.theme.dim, std::to_string(nth + 1));
  beside.draw(context, hovered);
  const std::string detail = detail_of(shown, choice);
  const float detail_x = at.x + size.x - size.y - context.px(2) - text_size(small, detail).x;
  const auto look = look_of(state, choice.id);
  draw_marker(list, look.marker, {at.x + context.px(32), at.y + 0.5F * size.y}, context.px(9),
              ink_colour(context.theme, look.colour), 0);
  const float name_x = at.x + context.px(46);
  draw_text(list, selected ? context.fonts.bold : context.fonts.regular, {name_x, text_y},
            run.blocks_done > 0 && choice.refusal.empty() ? context.theme.text : context.theme.dim,
            fit_text(context.fonts.bold, run.plan.name, detail_x - name_x - context.px(6)));
  draw_text(list, small, {detail_x, small_y}, context.theme.dim, detail);
  if (hovered && !beside.under_mouse() && run.plan.policy != "none")
    ImGui::SetTooltip("%s", figures::describe_plan(run.plan).c_str());
  if (clicked) click(context, choice, beside.under_mouse());
}

}  // namespace

float runs_panel_height(const PanelContext& context) {
  if (!context.state().loaded()) return context.px(kTabHeight) + live_controls_height(context);
  const auto n_runs = static_cast<float>(context.state().choices.size());
  return context.px(kTabHeight + kRowHeight * n_runs) + live_controls_height(context);
}

void draw_runs_panel(PanelContext& context) {
  if (context.state().loaded()) {
    const float room = ImGui::GetContentRegionAvail().y - live_controls_height(context);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, context.px(2)});
    ImGui::BeginChild("list", {0, std::max(context.px(kRowHeight), room)});
    const std::size_t n_runs = context.state().choices.size();
    for (std::size_t nth = 0; nth < n_runs; ++nth) draw_run_row(context, nth);
    ImGui::EndChild();
    ImGui::PopStyleVar();
  }
  draw_live_controls(context);
}

}  // namespace keyscope::window
