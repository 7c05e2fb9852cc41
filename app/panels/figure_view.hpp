#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/panels/figure_plots.hpp"
#include "app/panels/tiles.hpp"

namespace keyscope::window {

// The figure that the session has made of the selection, panel by panel, to be panned, zoomed and pointed at;
// or that of up to four runs side by side, which show the same part on the same colour scale. What
// `keyscope figure` writes into files is the same description.
class FigureView {
 public:
  void draw(PanelContext& context, const Rect& rect);
  void fit();
  // The view of its first panel, null without one.
  PlotView* first_plot() { return scene_.views.empty() ? nullptr : &scene_.views.front(); }
  // What is shown, for the state file.
  nlohmann::ordered_json describe() const;

 private:
  const FigurePlots* selected() const;
  void take(const std::vector<session::RunTile>& tiles);
  void share(const std::vector<session::RunTile>& tiles);
  void share_panel(std::size_t at);
  void draw_heading(PanelContext& context, const session::RunTile& selected, float width);
  void draw_tiles(PanelContext& context, const std::vector<session::RunTile>& tiles, const Rect& area);
  void link_legends(const FigurePlots& leading);

  std::map<session::RunId, FigurePlots> figures_;
  session::RunId selected_;
  FigureScene scene_;
  LeadingTile leading_;
  std::optional<figures::ColourScale> shared_scale_;  // where one bar serves all
};

}  // namespace keyscope::window
