#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/panels/keyspace_plot.hpp"
#include "app/panels/tiles.hpp"

namespace keyscope::window {

// The selected head's keys, as the session's look has them: in the plane or the space of their principal
// components, or against the anchor; of the selected run, or of up to four side by side. Left-drag pans, or
// turns space; the wheel zooms at the cursor, double-click fits, right-drag selects tokens in a box, with
// Shift inside an outline, right-click opens a menu, a click holds a token, a click on a legend entry toggles
// it. The view is kept over blocks and policies, and fitted to every new head and projection.
class KeyspacePanel {
 public:
  void draw(PanelContext& context, const Rect& rect);

  PlotView& view() { return scene_.view; }
  void fit();
  // Limits of the view, and where some tokens are on the screen, for the state file.
  nlohmann::ordered_json describe() const;
  std::int64_t points_drawn() const;  // of all plots

 private:
  // What the view was fitted to.
  struct Fitted {
    const void* recording = nullptr;
    int layer = -1, kv_head = -1;
    figures::Projection projection = figures::Projection::kPca;
    bool operator==(const Fitted&) const = default;
  };

  const KeyspacePlot* selected() const;
  void take(const PanelContext& context, const std::vector<session::RunTile>& tiles);
  void share_scale(const std::vector<session::RunTile>& tiles);
  void make_legend();
  void update_box();
  figures::Extent extent_of_all() const;
  void update_view(const PanelContext& context);
  void note_shown(PanelContext& context) const;
  float own_bars_width(const PanelContext& context, float height) const;
  void draw_tile(PanelContext& context, const session::RunTile& tile, const Rect& rect, float bar);
  void draw_tiles(PanelContext& context, const std::vector<session::RunTile>& tiles, const Rect& area);

  std::map<session::RunId, std::unique_ptr<KeyspacePlot>> plots_;
  session::RunId selected_;
  KeyspaceScene scene_;
  LeadingTile leading_;
  figures::Panel legend_of_;                          // its kinds of points alone
  std::optional<figures::ColourScale> shared_scale_;  // that all plots are coloured by
  Fitted fitted_;
};

}  // namespace keyscope::window
