#include "app/panels/workspace.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <imgui_internal.h>

#include "app/panels/panels.hpp"

namespace keyscope::window {

namespace {

constexpr const char* kDock = "workspace";
constexpr ImGuiWindowFlags kWindowFlags = ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoFocusOnAppearing |
                                          ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse |
                                          ImGuiWindowFlags_NoNav;

constexpr int kRefocusFrames = 3;  // until Dear ImGui has forgotten a dialog

constexpr std::string_view kExplore = "Explore", kCompare = "Compare", kLive = "Live", kPresent = "Present";
constexpr std::array kLayouts{
    NamedLayout{kExplore, "the map of heads, the views as tabs, the token that is pointed at"},
    NamedLayout{kCompare, "key space, text and what two policies keep side by side"},
    NamedLayout{kLive, "the text beside the keys while a model runs"},
    NamedLayout{kPresent, "the view alone, over the blocks"}};

std::string window_name(std::string_view title, std::string_view id) {
  return fmt::format("{}###{}", title, id);
}

// What is closed is closed by its tab.
void set_class() {
  ImGuiWindowClass by_tab;
  by_tab.DockNodeFlagsOverrideSet = ImGuiDockNodeFlags_NoCloseButton;
  ImGui::SetNextWindowClass(&by_tab);
}

std::string view_id(std::string_view view) { return fmt::format("view_{}", view); }

// Splits off a part of `node`, in pixels of `whole`; the rest stays `node`.
ImGuiID split(ImGuiID& node, ImGuiDir where, float part, float whole) {
  ImGuiID other = 0;
  const float share = std::clamp(part / std::max(1.0F, whole), 0.05F, 0.95F);
  ImGui::DockBuilderSplitNode(node, where, share, &other, &node);
  return other;
}

void dock(std::string_view id, ImGuiID node) {
  ImGui::DockBuilderDockWindow(fmt::format("###{}", id).c_str(), node);
}

}  // namespace

std::span<const NamedLayout> named_layouts() { return kLayouts; }

Rect content_rect() {
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  return {at.x, at.y, size.x, size.y};
}

void Workspace::take(const session::SessionState& state) {
  if (state.arranged == arranged_) return;
  arranged_ = state.arranged;
  const session::Arrangement& now = state.arrangement;
  layout_ = now.layout;
  built_for_ = {};
  closed_ = now.closed;
  to_build_ = now.docking.empty();
  if (!to_build_) ImGui::LoadIniSettingsFromMemory(now.docking.data(), now.docking.size());
}

// The sizes are those that panels want; what has no room is left out and can be opened.
void Workspace::build(const PanelContext& context, ImVec2 size) {
  const Layout wanted = make_layout(size.x, size.y, context.scale, runs_panel_height(context));
  ImGui::DockBuilderRemoveNode(root_);
  ImGui::DockBuilderAddNode(root_, ImGuiDockNodeFlags_DockSpace);
  ImGui::DockBuilderSetNodeSize(root_, size);
  closed_.clear();
  ImGuiID centre = root_, aside = 0;  // where panels that are opened later come
  float width = size.x;
  const bool alone = layout_ == kPresent;
  if (!wanted.heads.empty() && !alone) {
    ImGuiID heads = split(centre, ImGuiDir_Left, wanted.heads.width, width);
    width -= wanted.heads.width;
    const ImGuiID runs = split(heads, ImGuiDir_Down, wanted.runs.height, size.y);
    dock("heads", aside = heads);
    dock("runs", runs);
  } else {
    set_closed(PanelKind::kHeads, true);
    set_closed(PanelKind::kRuns, true);
  }
  if (!wanted.token.empty() && layout_ == kExplore) {
    dock("token", split(centre, ImGuiDir_Right, wanted.token.width, width));
    width -= wanted.token.width;
  } else {
    set_closed(PanelKind::kToken, true);
  }
  if (!wanted.timeline.empty()) {
    const ImGuiID below = split(centre, ImGuiDir_Down, wanted.timeline.height, size.y);
    dock("timeline", below);
    dock("budget", below);
    dock("filter", below);
  } else {
    set_closed(PanelKind::kTimeline, true);
    set_closed(PanelKind::kBudget, true);
    set_closed(PanelKind::kFilter, true);
  }
  const bool side_by_side = layout_ == kCompare || layout_ == kLive;
  ImGuiID text = side_by_side ? split(centre, ImGuiDir_Right, 0.5F * width, width) : centre;
  ImGuiID beside = text;
  if (layout_ == kCompare) beside = split(text, ImGuiDir_Down, 0.5F * size.y, size.y);
  for (const std::string& view : context.state().arrangement.views)
    dock(view_id(view), view == session::kTextView         ? text
                        : view == session::kDifferenceView ? beside
                                                           : centre);
  for (const PanelName& panel : kPanelNames)
    if (is_closed(panel.kind)) dock(panel.id, aside != 0 ? aside : centre);
  ImGui::DockBuilderFinish(root_);
  built_for_ = size;
  focused_.clear();  // the view that is looked at comes to the front
}

void Workspace::begin(PanelContext& context) {
  ImGuiViewport* viewport = ImGui::GetMainViewport();
  const ImVec2 size = viewport->WorkSize;
  ImGui::SetNextWindowPos(viewport->WorkPos);
  ImGui::SetNextWindowSize(size);
  ImGui::SetNextWindowViewport(viewport->ID);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 0.0F);
  ImGui::Begin("workspace", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoNav |
                   ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoDocking);
  ImGui::PopStyleVar(2);
  root_ = ImGui::GetID(kDock);
  if (layout_.empty()) layout_ = kExplore;
  const bool other_size = std::abs(size.x - built_for_.x) > 1 || std::abs(size.y - built_for_.y) > 1;
  if (to_build_ && other_size) build(context, size);
  // What somebody has moved keeps its place in a window of another size.
  const ImGuiContext& imgui = *ImGui::GetCurrentContext();
  const bool drags_border =
      imgui.ActiveIdWindow == ImGui::GetCurrentWindow() && ImGui::IsMouseDragging(ImGuiMouseButton_Left);
  if (imgui.MovingWindow != nullptr || drags_border) to_build_ = false;
  ImGui::DockSpace(root_, {0, 0});
  ImGui::End();
  visible_.clear();
  // A dialog that closes gives the focus to whatever window came last, not to the one that had it.
  const bool covered = ImGui::GetTopMostPopupModal() != nullptr;
  if (!covered && refocus_ > 0) focused_.clear();
  refocus_ = covered ? kRefocusFrames : std::max(0, refocus_ - 1);
  focuses_ = context.state().view != focused_;
  focused_ = context.state().view;
}

bool Workspace::begin_panel(PanelContext& context, PanelKind kind) {
  const PanelName& panel = *std::ranges::find(kPanelNames, kind, &PanelName::kind);
  bool open = true;
  set_class();
  const bool seen = ImGui::Begin(window_name(panel.title, panel.id).c_str(), &open, kWindowFlags);
  const ImRect tab = ImGui::GetCurrentWindow()->DC.DockTabItemRect;
  context.widgets[fmt::format("tab_{}", panel.id)] = {tab.Min.x, tab.Min.y, tab.GetWidth(), tab.GetHeight()};
  if (!open) toggle(kind);
  return seen;
}

bool Workspace::begin_view(PanelContext& context, const session::ViewChoice& view) {
  const bool chosen = view.name == context.state().view;
  if (chosen && focuses_) ImGui::SetNextWindowFocus();
  if (const ImGuiDockNode* centre = ImGui::DockBuilderGetCentralNode(root_))
    ImGui::SetNextWindowDockID(centre->ID, ImGuiCond_FirstUseEver);
  bool open = true;
  set_class();
  const bool several = context.state().arrangement.views.size() > 1;
  const bool seen = ImGui::Begin(window_name(view.label, view_id(view.name)).c_str(),
                                 several ? &open : nullptr, kWindowFlags);
  const ImRect tab = ImGui::GetCurrentWindow()->DC.DockTabItemRect;
  context.widgets[view_id(view.name)] = {tab.Min.x, tab.Min.y, tab.GetWidth(), tab.GetHeight()};
  if (seen) visible_.push_back(view.name);
  if (!open)
    context.session.close_view(view.name);
  else if (seen && !focuses_ && !chosen && ImGui::IsWindowFocused(ImGuiFocusedFlags_RootAndChildWindows))
    context.session.choose_view(view.name);
  return seen;
}

void Workspace::end_window() { ImGui::End(); }

void Workspace::end(PanelContext& context) {
  // A frame in which another view comes to the front still draws the one before.
  if (focuses_) context.wants_frames = true;
  context.session.show_views(visible_);
}

void Workspace::choose(session::Session& session, std::string_view layout) {
  session::Arrangement arrangement = session.state().arrangement;
  arrangement.layout = layout;
  arrangement.docking.clear();
  if (layout != kExplore)
    for (const std::string_view view : {session::kKeyspaceView, session::kTextView, session::kDifferenceView})
      if (std::ranges::find(arrangement.views, view) == arrangement.views.end())
        arrangement.views.emplace_back(view);
  session.arrange(std::move(arrangement));
}

bool Workspace::is_closed(PanelKind kind) const {
  const PanelName& panel = *std::ranges::find(kPanelNames, kind, &PanelName::kind);
  return std::ranges::find(closed_, panel.id) != closed_.end();
}

void Workspace::set_closed(PanelKind kind, bool closed) {
  const PanelName& panel = *std::ranges::find(kPanelNames, kind, &PanelName::kind);
  std::erase(closed_, panel.id);
  if (closed) closed_.emplace_back(panel.id);
}

void Workspace::toggle(PanelKind kind) {
  set_closed(kind, !is_closed(kind));
  to_build_ = false;
}

// One that nobody changed is made anew for the size of the window.
void Workspace::note(session::Session& session) const {
  session.note_arrangement(to_build_ ? "" : ImGui::SaveIniSettingsToMemory(),
                           to_build_ ? std::vector<std::string>() : closed_);
}

void Workspace::save(session::Session& session, const std::string& name) const {
  session.note_arrangement(ImGui::SaveIniSettingsToMemory(), closed_);
  session::write_arrangement(folder_, name, session.state().arrangement);
  const bool there = session::read_arrangement(folder_, name) == session.state().arrangement;
  session.notify(
      {there ? fmt::format("The layout is kept as “{}”.", name) : "The layout could not be kept.", !there});
}

void Workspace::restore(session::Session& session, const std::string& name) const {
  if (auto arrangement = session::read_arrangement(folder_, name))
    session.arrange(std::move(*arrangement));
  else
    session.notify({fmt::format("The layout “{}” cannot be read.", name), true});
}

}  // namespace keyscope::window
