#pragma once

#include <string>
#include <vector>

#include "app/figures/page.hpp"
#include "app/drawing/page_text.hpp"
#include "app/figures/plot_range.hpp"

namespace keyscope::figures {

// An entry of a legend: the look of one series.
struct LegendEntry {
  const PointSeries* points = nullptr;
  const LineSeries* line = nullptr;
  Box box;  // marker and label
};

struct Legend {
  double height = 0;
  std::vector<LegendEntry> entries;
};

// A line of text that belongs to no panel alone.
struct PlacedText {
  std::string text;
  TextStyle style;
  double x = 0, y = 0;
  TextAnchor anchor;
  double angle = 0;    // radians, clockwise
  bool muted = false;  // as notes are
};

struct PanelLayout {
  Box cell;        // everything of the panel
  Box plot;        // inside the axes
  Box colour_bar;  // of width 0: none
  double title_y = 0, note_y = 0;
  bool x_labels = true, y_labels = true;  // false: the panel below, or to the left, has the same
  bool bare = false;  // a small multiple: title, note and axis labels stand outside, if anywhere
  bool ticks = true;
  double tick_size = kTickSize;
  PanelRanges ranges;
  Legend legend;  // of looks that no other panel has
};

struct PageLayout {
  double width = 0, height = 0;
  double title_y = 0, caption_y = 0;
  double text_width = 0;  // of title and caption
  std::vector<PanelLayout> panels;
  std::vector<PlacedText> texts;
  Legend legend;  // of looks that several panels share; of a single panel's
};

inline constexpr double kPageMargin = 7;

// Places everything of a figure on a page of the given width (points); the height follows.
//   cairo: measures text
PageLayout lay_out_page(cairo_t* cairo, const Figure& figure, double width);

}  // namespace keyscope::figures
