#pragma once

#include <cstddef>

#include "app/panels/panel_context.hpp"

namespace keyscope::window {

// The small button at the right end of a run's row that puts the run beside the selected one, or takes it
// away: drawn where it is on, and where the row is pointed at. The row's own button takes its clicks.
//   nth: of the session's choices; row: of the list
class BesideButton {
 public:
  BesideButton(PanelContext& context, std::size_t nth, const Rect& row);

  float width() const { return box_.w; }  // 0: the run is the selected one
  bool under_mouse() const;
  void draw(PanelContext& context, bool row_hovered) const;

 private:
  const session::RunChoice& choice_;
  std::size_t nth_;
  Rect box_;
  bool on_;
};

}  // namespace keyscope::window
