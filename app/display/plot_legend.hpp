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

// The room that a colour scale takes at the right of a plot of this height, in pixels.
float colour_bar_width(const DrawContext& context, const figures::ColourScale& scale, float height);

// The scale itself, with ticks and the name of what is shown; `bar.width` is the room above. Categories are
// blocks with their names, the first at the top.
void draw_colour_bar(const DrawContext& context, const figures::ColourScale& scale, const Rect& bar);

// One marker of a figure at `at`, outlined in `outline` so that it stands off the points under it.
void draw_marker(ImDrawList& list, figures::Marker marker, ImVec2 at, float diameter, ImU32 fill,
                 ImU32 outline);

// Text that reads upwards, its centre at `centre`.
void draw_vertical_text(ImDrawList& list, const Font& font, ImVec2 centre, ImU32 colour,
                        const std::string& text);

// Lines of it one after another towards the right, each at the middle of the first's height.
//   at: the left edge of the first line, and the middle of all of them
void draw_vertical_lines(ImDrawList& list, const Font& font, ImVec2 at, ImU32 colour,
                         const std::vector<std::string>& lines);

}  // namespace keyscope::window
