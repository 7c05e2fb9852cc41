#pragma once

#include <memory>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/panels/plot_panel.hpp"

namespace keyscope::window {

// The figure that the session has made of the selection, panel by panel, to be panned, zoomed and pointed at.
// What `keyscope figure` writes into files is the same description.
class FigureView {
 public:
  void draw(PanelContext& context, const Rect& rect);
  void fit();
  // The view of its first panel, null without one.
  PlotView* first_plot() { return plots_.empty() ? nullptr : &plots_.front()->view(); }
  // What is shown, for the state file.
  nlohmann::ordered_json describe() const;

 private:
  void take(const session::MadeFigure& shown);
  void draw_panels(PanelContext& context, const Rect& rect);
  void draw_one(PanelContext& context, PlotPanel& plot, const Rect& cell, const std::string& name);
  void point_at(PanelContext& context, const figures::Panel& panel, const PlotHit& hit, bool clicked) const;
  void draw_menu(PanelContext& context, const PlotPanel& plot);

  session::MadeFigure shown_;
  bool of_tokens_ = false;  // its points and cells are tokens of the selected head
  std::vector<std::unique_ptr<PlotPanel>> plots_;
};

}  // namespace keyscope::window
