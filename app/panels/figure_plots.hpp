#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/display/heatmap_layer.hpp"
#include "app/display/plot.hpp"
#include "app/display/plot_axes.hpp"
#include "app/display/plot_legend.hpp"
#include "app/display/plot_view.hpp"
#include "app/display/point_layer.hpp"
#include "app/display/theme.hpp"
#include "app/figures/figure.hpp"
#include "app/panels/panel_context.hpp"
#include "app/session/run_tiles.hpp"

namespace keyscope::window {

// What is under the cursor in a plot.
struct PlotHit {
  // Of a matrix, by what its row and column stand for; NaN: no value.
  struct Cell {
    std::int64_t row = 0, column = 0;
    float value = 0;
  };
  std::optional<std::int64_t> token;  // of the nearest point
  std::optional<Cell> cell;
  std::string series;   // the point's, where it is no token
  double x = 0, y = 0;  // in the panel's own coordinates
};

// One panel of a figure as the window shows it: heatmap, points, lines, axes, legend. It pans and zooms; its
// view is kept when the panel is made anew over the same extent.
class PlotPanel {
 public:
  PlotPanel() = default;

  // Another panel from now on.
  //   of_tokens: a matrix's rows and columns are token positions
  //   keep_view: it shows the same thing at another block
  void set(figures::Panel panel, bool of_tokens, bool keep_view);
  // Whether only a matrix's rows are token positions.
  void use_rows_alone(bool alone) { rows_alone_ = alone; }
  void fit();

  // What other panels that stand beside this one show as well is fitted with it; one colour scale serves all
  // where there is one, else the panel's own.
  void use_extent(const figures::Extent& extent);
  void use_range(const std::optional<figures::ColourScale>& shared);
  bool shares_range() const { return shares_range_; }
  std::optional<figures::ColourScale> own_scale() const { return own_scale_; }
  void hide_as(const PlotPanel& other);  // what the legend hides

  // The token that the rest of the window points at or holds is marked where the panel has it.
  struct Outcome {
    std::optional<PlotHit> hit;
    bool clicked = false;
    bool menu = false;
  };
  //   name: for the state file; bar: whether a matrix has its colour bar beside it
  Outcome draw(PanelContext& context, const Rect& rect, const std::string& name, bool bar = true);

  const figures::Panel& panel() const { return panel_; }
  // Whether its points are tokens, which a box or an outline can select.
  bool selects() const { return selects_; }
  PlotView& view() { return view_; }
  session::ShownPanel shown() const { return {part_of(view_), legend_.hidden()}; }
  const PlotView& view() const { return view_; }

 private:
  Outcome draw_plot(PanelContext& context, const Rect& plot, const std::string& name, bool names);
  void draw_content(PanelContext& context);
  void draw_cell_numbers(const PanelContext& context, const figures::Heatmap& map) const;
  void draw_token(PanelContext& context, std::int64_t token) const;
  static void draw_line(const PanelContext& context, const figures::LineSeries& series, const PlotView& view);
  static void draw_band(const Theme& theme, const figures::BandSeries& band);
  std::optional<PlotHit> hit(const PanelContext& context, Pixel at) const;
  std::optional<PlotHit> matrix_hit(const figures::Heatmap& map, PlotPoint at) const;
  void select_inside(PanelContext& context, const std::vector<Pixel>& outline) const;
  void update_selection(const PanelContext& context);
  void rebuild_index();
  // What is drawn and pointed at.
  const figures::Panel& seen() const { return faded_ ? *faded_ : panel_; }

  figures::Panel panel_;
  figures::Extent extent_;  // that a fitted view shows
  std::optional<figures::ColourScale> own_scale_;
  bool shares_range_ = false;
  std::optional<figures::Panel>
      faded_;  // with what is not selected standing back; empty: nothing is selected
  std::shared_ptr<const session::TokenSet> selected_;  // that `faded_` is of
  OrderMargin order_;
  bool of_tokens_ = false, rows_alone_ = false, selects_ = false;
  std::uint64_t revision_ = 0;
  PlotView view_;
  PlotLegend legend_;
  Plot plot_;
  PointIndex index_;
  std::unique_ptr<PointLayer> points_;     // made when a panel has some
  std::unique_ptr<HeatmapLayer> heatmap_;  // likewise
};

// What figures that stand side by side have in common: the part that each of their panels shows.
struct FigureScene {
  std::vector<PlotView> views;  // of the panels, as they were drawn last
  bool wants_fit = false;       // somebody asked for all to be fitted
};

// The panels of one run's figure, to be panned, zoomed and pointed at.
class FigurePlots {
 public:
  enum class Change { kNone, kValues, kAxes };  // kValues: in the same axes, of another run or block

  // What is shown from now on.
  Change take(const session::MadeFigure& shown);

  //   bar: whether panels have their colour bars
  void draw(PanelContext& context, FigureScene& scene, const session::RunTile& tile, const Rect& rect,
            bool bar);

  std::size_t size() const { return plots_.size(); }
  PlotPanel& plot(std::size_t i) { return *plots_[i]; }
  const PlotPanel& plot(std::size_t i) const { return *plots_[i]; }
  const session::MadeFigure& shown() const { return shown_; }
  // For the state file.
  void describe(nlohmann::ordered_json& json) const;

 private:
  void draw_one(PanelContext& context, FigureScene& scene, const session::RunTile& tile, std::size_t at,
                const Rect& cell, bool bar);
  void point_at(PanelContext& context, const session::RunTile& tile, const figures::Panel& panel,
                const PlotHit& hit, bool clicked, const std::string& name) const;
  static void draw_menu(PanelContext& context, FigureScene& scene, const PlotPanel& plot);

  session::MadeFigure shown_;
  bool of_tokens_ = false;  // its points and cells are tokens of a head
  std::vector<std::unique_ptr<PlotPanel>> plots_;
};

}  // namespace keyscope::window
