#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/panels/plot_panel.hpp"
#include "app/session/run_tiles.hpp"

namespace keyscope::window {

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
