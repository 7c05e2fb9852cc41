#pragma once

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <imgui.h>

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The panels that stand around the views.
enum class PanelKind { kHeads, kRuns, kToken, kTimeline, kBudget, kFilter };

struct PanelName {
  PanelKind kind;
  std::string_view id, title;
};
inline constexpr std::array kPanelNames{
    PanelName{PanelKind::kHeads, "heads", "Heads"},    PanelName{PanelKind::kRuns, "runs", "Policies"},
    PanelName{PanelKind::kToken, "token", "Token"},    PanelName{PanelKind::kTimeline, "timeline", "Blocks"},
    PanelName{PanelKind::kBudget, "budget", "Budget"}, PanelName{PanelKind::kFilter, "filter", "Filter"}};

// A way to lay panels and views out, made for a size of the window.
struct NamedLayout {
  std::string_view name, about;
};
std::span<const NamedLayout> named_layouts();

// Panels and views as windows of Dear ImGui's: docked beside each other or as tabs, moved, resized, torn off.
class Workspace {
 public:
  //   folder: of the layouts that the user gave names; empty: none are kept
  explicit Workspace(std::filesystem::path folder = {}) : folder_(std::move(folder)) {}

  // Before ImGui::NewFrame: the session's arrangement, where it is another one than before.
  void take(const session::SessionState& state);

  // Fills the rest of the window below and above the bars. Then panels and views, then end.
  void begin(PanelContext& context);
  // Whether the window can be seen; only then its content is to be drawn, but end_window must follow always.
  bool begin_panel(PanelContext& context, PanelKind kind);
  bool begin_view(PanelContext& context, const session::ViewChoice& view);
  static void end_window();
  void end(PanelContext& context);

  // From now on by the layout of this name.
  static void choose(session::Session& session, std::string_view layout);
  const std::string& layout() const { return layout_; }
  bool is_closed(PanelKind kind) const;
  void toggle(PanelKind kind);

  // How it lies now, into the session.
  void note(session::Session& session) const;

  // The user's own.
  std::vector<std::string> saved() const { return session::arrangement_names(folder_); }
  void save(session::Session& session, const std::string& name) const;
  void restore(session::Session& session, const std::string& name) const;

 private:
  void build(const PanelContext& context, ImVec2 size);
  void set_closed(PanelKind kind, bool closed);

  std::filesystem::path folder_;
  ImGuiID root_ = 0;      // of all docks
  int arranged_ = -1;     // the session's, that was taken
  bool to_build_ = true;  // by the named layout
  std::string layout_;    // its name
  ImVec2 built_for_;      // size of the window
  std::vector<std::string> closed_;
  std::vector<std::string> visible_;  // of the views in this frame
  std::string focused_;               // the view that was last
  int refocus_ = 0;                   // frames in which the view takes the focus back
  bool focuses_ = false;              // another one has been chosen, and takes the focus in this frame
};

// Where the content of the window that is drawn in lies, inside its padding.
Rect content_rect();

}  // namespace keyscope::window
