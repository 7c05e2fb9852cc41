#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/display/gl_objects.hpp"
#include "app/panels/figure_plots.hpp"
#include "app/panels/panel_context.hpp"
#include "app/panels/tiles.hpp"

namespace keyscope::window {

// The figures of a figure file: a list, and the selected one as `keyscope figure` would draw it.
class FigurePanel {
 public:
  void draw(PanelContext& context, const Rect& rect);

 private:
  // What the picture was made for.
  struct Made {
    std::shared_ptr<const figures::FigureFile> file;
    std::size_t figure = 0;
    int width = 0, height = 0;
    bool light = false;
    bool operator==(const Made&) const = default;
  };

  void draw_list(PanelContext& context, const Rect& rect) const;
  void draw_picture(PanelContext& context, const Rect& rect);
  void make(const PanelContext& context, Made wanted);

  Made made_;
  GlTexture texture_;
  int width_ = 0, height_ = 0;  // of the picture
  std::string error_;
};

// The figure that the session has made of the selection, panel by panel, to be panned, zoomed and pointed at;
// or that of up to four runs side by side, which show the same part on the same colour scale. What
// `keyscope figure` writes into files is the same description.
class FigureView {
 public:
  explicit FigureView(std::string name) : name_(std::move(name)) {}  // of the figure

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

  std::string name_;
  std::map<session::RunId, FigurePlots> figures_;
  session::RunId selected_;
  FigureScene scene_;
  LeadingTile leading_;
  std::optional<figures::ColourScale> shared_scale_;  // where one bar serves all
};

}  // namespace keyscope::window
