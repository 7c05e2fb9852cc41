#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/display/plot.hpp"
#include "app/display/plot_legend.hpp"
#include "app/figures/density.hpp"
#include "app/figures/scales.hpp"
#include "app/figures/space_box.hpp"
#include "app/panels/panel_context.hpp"
#include "app/session/keyspace_view.hpp"
#include "app/session/run_tiles.hpp"

namespace keyscope::window {

// What plots of the key space that stand side by side have in common: where they are looked at from, and what
// they leave out.
struct KeyspaceScene {
  PlotView view;  // of the plot that was drawn last; the others show the same part of the plane
  figures::Extent extent;
  figures::Orbit orbit;
  figures::SpaceBox box;  // that all their points of space lie in
  PlotLegend legend;
};

// The keys of one run: drawn, pointed at, held, selected from. What is under the mouse in one plot, and what
// it does to the scene, shows in all of them.
class KeyspacePlot {
 public:
  // What the plot shows from now on. Returns whether that is something else than before.
  bool take(const session::RunTile& tile, const std::shared_ptr<const session::TokenSet>& tokens);

  // Colours by this scale, which other plots have as well; nullopt: by the picture's own.
  void use_scale(const std::optional<figures::ColourScale>& shared);
  void note_hidden() { index_is_old_ = true; }  // the legend hid or showed something

  // Its axes and points into `rect`.
  void draw(PanelContext& context, KeyspaceScene& scene, const session::RunTile& tile, const Rect& rect);

  const session::KeyspacePicture* picture() const { return picture_.get(); }
  const std::optional<figures::ColourScale>& own_scale() const { return own_scale_; }
  const figures::Panel& panel() const { return seen_; }
  bool in_space() const { return seen_.is_3d(); }
  // The radius of the hexagons that keys are counted in, in units of x.
  static double hexagon(const PanelContext& context, const PlotView& view);
  figures::SpaceBox box() const { return box_; }
  Rect frame() const { return {view_.left(), view_.top(), view_.width(), view_.height()}; }
  // All that is shown of the head, at every block where points stand still; not of space.
  figures::Extent extent() const;
  std::int64_t points_drawn() const { return layer_.points_drawn(); }
  // How many points there are, and where some of them are on the screen, for the state file.
  void describe(nlohmann::ordered_json& json) const;

 private:
  // A token's point.
  struct Found {
    const figures::PointSeries* series = nullptr;
    std::size_t at = 0;
  };

  void turn(const KeyspaceScene& scene);
  void update_index(const PlotLegend& legend);
  void take_mouse(PanelContext& context, KeyspaceScene& scene, const session::RunTile& tile,
                  const PlotMouse& mouse);
  void point_at(PanelContext& context, const KeyspaceScene& scene, const session::RunTile& tile,
                const Pixel& at, bool clicked);
  void select_inside(PanelContext& context, const KeyspaceScene& scene, const std::vector<Pixel>& outline);
  void draw_menu(PanelContext& context, KeyspaceScene& scene);
  void draw_content(PanelContext& context, const KeyspaceScene& scene);
  void draw_density(PanelContext& context, const KeyspaceScene& scene);
  void draw_names(const PanelContext& context, const KeyspaceScene& scene) const;
  void draw_means(const PanelContext& context, const PlotLegend& legend) const;
  std::optional<Found> find(std::int64_t token) const;
  void draw_token(PanelContext& context, std::int64_t token, bool held) const;

  std::shared_ptr<const session::KeyspacePicture> picture_;
  std::shared_ptr<const session::TokenSet> tokens_;
  std::optional<figures::ColourScale> own_scale_;
  figures::Panel panel_;  // the picture's, with what is not selected faded
  figures::Panel seen_;   // the same, turned in space
  figures::SpaceBox box_, turned_box_;
  figures::Orbit turned_;  // as `seen_` is
  bool turn_is_old_ = true;
  std::shared_ptr<const session::HeadPoints> box_of_;
  std::uint64_t revision_ = 0;
  PointIndex index_;
  bool index_is_old_ = true;  // made anew when the cursor asks for it
  PlotView view_;
  PointLayer layer_;
  Plot plot_;
  // Of keys that are counted in hexagons: these, and what they were counted for; the rest of the panel.
  figures::Density density_;
  std::tuple<std::uint64_t, std::uint64_t, std::vector<std::string>> counted_for_;
  figures::Panel others_;
};

}  // namespace keyscope::window
