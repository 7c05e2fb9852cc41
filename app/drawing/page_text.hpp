#pragma once

#include <memory>
#include <string>

#include <cairo.h>

#include "app/figures/figure.hpp"

namespace keyscope::figures {

struct DestroyCairo {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
  void operator()(cairo_t* cairo) const { cairo_destroy(cairo); }
};
using CairoSurface = std::unique_ptr<cairo_surface_t, DestroyCairo>;
using CairoContext = std::unique_ptr<cairo_t, DestroyCairo>;

// Points.
inline constexpr double kTitleSize = 9, kPanelTitleSize = 8, kLabelSize = 7.5, kLeastLabelSize = 6.5,
                        kTickSize = 6.5, kNoteSize = 6.5, kBriefTickSize = 5.5, kBriefNoteSize = 5;

// Of wrapped lines; beside the centre and on the right the text is as wide as it may be.
enum class Alignment { kLeft, kCentre, kRight };

struct TextStyle {
  double size_pt = 7;
  bool bold = false;
  double wrap_width = 0;  // points; 0: one line
  int max_lines = 0;      // of wrapped text; what is beyond becomes an ellipsis. 0: as many as it needs
  Alignment alignment = Alignment::kLeft;
};

struct TextSize {
  double width = 0, height = 0;
};

// Where the given position lies in the text's box, in shares of its width and height.
struct TextAnchor {
  double x = 0, y = 0;
};

// The same text with U+FFFD for bytes that are no UTF-8.
std::string valid_utf8(const std::string& text);

// Sizes do not depend on the surface, so that a page can be laid out before it exists. Units are points.
// Bytes that are no UTF-8 are shown as U+FFFD.
TextSize measure_text(cairo_t* cairo, const std::string& text, const TextStyle& style);

// How a label is set along `room` points: on one line, smaller on one line, on two, and only then cut.
TextStyle fit_label(cairo_t* cairo, const std::string& text, double room);

// Draws with the current colour. angle: radians, clockwise, about (x, y).
void draw_text(cairo_t* cairo, const std::string& text, const TextStyle& style, double x, double y,
               TextAnchor anchor = {}, double angle = 0);

}  // namespace keyscope::figures
