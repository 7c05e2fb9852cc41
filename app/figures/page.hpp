#pragma once

#include <cairo.h>

#include "app/figures/figure.hpp"

namespace keyscope::figures {

// A rectangle on the page in points (1/72 in), y downwards.
struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

struct Theme {
  Colour ground, ink, muted, frame, grid;
  bool dark = false;

  // A series' colour on this ground: on a dark one, those that would vanish are lighter.
  Colour of_series(Colour colour) const {
    if (!dark) return colour;
    if (colour == kBlack || colour == kCharcoal) return ink;
    return colour == kBlue ? Colour{0x2E, 0x93, 0xD6} : colour;
  }
};

inline constexpr Theme kLightTheme{
    {0xFF, 0xFF, 0xFF}, {0x1A, 0x1A, 0x1A}, {0x5C, 0x5C, 0x5C}, {0xA0, 0xA0, 0xA0}, {0xEC, 0xEC, 0xEC}};
// The ground is that of the window's panels.
inline constexpr Theme kDarkTheme{{0x17, 0x1B, 0x22}, {0xEC, 0xEC, 0xEC}, {0xA8, 0xAC, 0xB4},
                                  {0x6A, 0x6E, 0x78}, {0x2B, 0x2E, 0x36}, true};

// What everything is painted on.
struct Page {
  cairo_t* cairo = nullptr;
  Theme theme = kLightTheme;
  double pixels_per_point = 1;  // resolution of images
  bool raster = false;          // the page itself is an image
  double marker_scale = 1;      // smaller in small panels

  void set_colour(Colour colour, double alpha = 1) const {
    cairo_set_source_rgba(cairo, colour.r / 255.0, colour.g / 255.0, colour.b / 255.0, alpha);
  }
};

}  // namespace keyscope::figures
