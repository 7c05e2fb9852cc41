#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/panels/panel_context.hpp"
#include "app/panels/plot_legend.hpp"
#include "app/panels/plot_mouse.hpp"
#include "app/panels/plot_view.hpp"
#include "app/panels/point_index.hpp"
#include "app/window/point_layer.hpp"

namespace keyscope::window {

// The selected head's keys in the plane of their principal components. Left-drag pans, the wheel zooms at the
// cursor, double-click fits, right-drag zooms to a box, right-click opens a menu, a click holds a token, a
// click on a legend entry toggles it. The view is kept over blocks and policies, and fitted to every new
// head.
class KeyspacePanel {
 public:
  void draw(PanelContext& context, const Rect& rect);

  PlotView& view() { return view_; }
  void fit();
  // Limits of the view, and where some tokens are on the screen, for the state file.
  nlohmann::ordered_json describe() const;
  std::int64_t points_drawn() const { return layer_.points_drawn(); }

 private:
  // What `panel_` was made of.
  struct Made {
    std::shared_ptr<const session::HeadPoints> points;
    std::int64_t block = -1;
    bool operator==(const Made&) const = default;
  };

  void update_panel(const PanelContext& context);
  void update_view(const PanelContext& context);
  void draw_title(PanelContext& context);
  void draw_plot(PanelContext& context, const Rect& plot, bool names);
  void handle_mouse(PanelContext& context);
  void draw_menu(PanelContext& context);
  void draw_means(PanelContext& context) const;
  void draw_token(PanelContext& context, std::int64_t token, bool held) const;
  void draw_tooltip(PanelContext& context, std::int64_t token) const;

  Made made_;
  figures::Panel panel_;
  std::uint64_t revision_ = 0;
  PointIndex index_;
  PlotView view_;
  PointLayer layer_;
  PlotLegend legend_;
  PlotMouse mouse_;
  // What the view was fitted to.
  const void* fitted_recording_ = nullptr;
  int fitted_layer_ = -1, fitted_kv_head_ = -1;
  session::Extent fitted_extent_;
};

}  // namespace keyscope::window
