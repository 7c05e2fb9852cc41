#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/figures/orbit.hpp"
#include "app/panels/panel_context.hpp"
#include "app/panels/plot_legend.hpp"
#include "app/panels/plot_mouse.hpp"
#include "app/panels/plot_view.hpp"
#include "app/panels/point_index.hpp"
#include "app/session/turned_panel.hpp"
#include "app/window/point_layer.hpp"

namespace keyscope::window {

// The selected head's keys, as the session's look has them: in the plane or the space of their principal
// components, or against the anchor. Left-drag pans, or turns space; the wheel zooms at the cursor,
// double-click fits, right-drag selects tokens in a box, with Shift inside an outline, right-click opens a
// menu, a click holds a token, a click on a legend entry toggles it. The view is kept over blocks and
// policies, and fitted to every new head and projection.
class KeyspacePanel {
 public:
  void draw(PanelContext& context, const Rect& rect);

  PlotView& view() { return view_; }
  void fit();
  // Limits of the view, and where some tokens are on the screen, for the state file.
  nlohmann::ordered_json describe() const;
  std::int64_t points_drawn() const { return layer_.points_drawn(); }

 private:
  // What `seen_` was made of.
  struct Made {
    std::shared_ptr<const session::KeyspacePicture> picture;
    std::shared_ptr<const session::TokenSet> tokens;
    bool operator==(const Made&) const = default;
  };
  // What the view was fitted to.
  struct Fitted {
    const void* recording = nullptr;
    int layer = -1, kv_head = -1;
    figures::Projection projection = figures::Projection::kPca;
    bool operator==(const Fitted&) const = default;
  };
  // A token's point.
  struct Found {
    const figures::PointSeries* series = nullptr;
    std::size_t at = 0;
  };

  bool in_space() const { return seen_.is_3d(); }
  void update_panel(const PanelContext& context);
  void turn();
  session::Extent extent_of_picture() const;
  void update_view(const PanelContext& context);
  void note_shown(PanelContext& context) const;
  void update_index();
  void draw_layer(PanelContext& context, bool names);
  void draw_plot(PanelContext& context, const Rect& plot, bool names);
  void handle_mouse(PanelContext& context);
  void draw_menu(PanelContext& context);
  void draw_means(PanelContext& context) const;
  std::optional<Found> find(std::int64_t token) const;
  void draw_token(PanelContext& context, std::int64_t token, bool held) const;
  void draw_tooltip(PanelContext& context, std::int64_t token) const;

  Made made_;
  figures::Panel panel_;  // the picture's, with what is not selected faded
  figures::Panel seen_;   // the same, turned in space
  figures::Orbit orbit_;
  session::SpaceBox box_;
  std::shared_ptr<const session::HeadPoints> box_of_;
  session::Extent extent_;  // that a fitted view shows
  std::uint64_t revision_ = 0;
  PointIndex index_;
  bool index_is_old_ = true;  // made anew when the cursor asks for it
  PlotView view_;
  PointLayer layer_;
  PlotLegend legend_;
  PlotMouse mouse_;
  Fitted fitted_;
  session::Extent fitted_extent_;
};

}  // namespace keyscope::window
