#pragma once

#include <string>
#include <vector>

#include "app/display/draw_context.hpp"
#include "app/figures/figure.hpp"

namespace keyscope::window {

// A panel's legend above its plot. A click on an entry hides its series or shows it again; what is hidden
// stays so when the panel is made anew.
class PlotLegend {
 public:
  // At ImGui's cursor, as wide as the window; true if something was hidden or shown.
  bool draw(DrawContext& context, const figures::Panel& panel);

  bool hides(const std::string& id) const;
  const std::vector<std::string>& hidden() const { return hidden_; }

 private:
  // One line or marker with its text.
  struct Entry {
    std::string label, id;
    figures::Colour colour;
    const figures::PointSeries* points = nullptr;
    const figures::LineSeries* line = nullptr;
  };
  static std::vector<Entry> entries_of(const figures::Panel& panel);
  bool draw_entry(DrawContext& context, const Entry& entry, float right) const;

  std::vector<std::string> hidden_;
};

// One marker of a figure at `at`, outlined in `outline` so that it stands off the points under it.
void draw_marker(ImDrawList& list, figures::Marker marker, ImVec2 at, float diameter, ImU32 fill,
                 ImU32 outline);

}  // namespace keyscope::window
