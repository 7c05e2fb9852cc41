#pragma once

#include <cstdint>

#include "app/session/head_points.hpp"

namespace keyscope::window {

struct Pixel {
  float x = 0, y = 0;
};

struct PlotPoint {
  double x = 0, y = 0;
};

// Which part of the plane a plot shows, and where on the screen: pan, zoom at the cursor, fit. Pixels are the
// window's, y downwards; the plane's y goes upwards. Until the user moves it, a view stays fitted when its
// frame changes size.
class PlotView {
 public:
  void set_frame(float left, float top, float width, float height);

  // Shows all of `extent` with a margin. With equal aspect one unit is as long on x as on y.
  //   margin: on every side, as a share of the frame
  void fit(const session::Extent& extent, bool equal_aspect, double margin = kMargin);
  static constexpr double kMargin = 0.05;

  // Shows the part of the plane that `other` does, in its own frame.
  void follow(const PlotView& other);

  void pan(float dx, float dy);
  void zoom_at(Pixel at, double factor);  // > 1: closer
  void zoom_to(Pixel corner, Pixel opposite);

  Pixel to_pixel(double x, double y) const;
  PlotPoint to_plane(Pixel at) const;
  bool contains(Pixel at) const;

  float left() const { return left_; }
  float top() const { return top_; }
  float width() const { return width_; }
  float height() const { return height_; }
  double x_low() const { return to_plane({left_, top_}).x; }
  double x_high() const { return to_plane({left_ + width_, top_}).x; }
  double y_low() const { return to_plane({left_, top_ + height_}).y; }
  double y_high() const { return to_plane({left_, top_}).y; }
  PlotPoint centre() const { return {centre_x_, centre_y_}; }
  double pixels_per_unit_x() const { return scale_x_; }
  double pixels_per_unit_y() const { return scale_y_; }

  bool moved() const { return moved_; }                 // by the user, since the last fit
  std::uint64_t revision() const { return revision_; }  // changes whenever the mapping does

 private:
  void show_extent();
  void clamp_scale();

  float left_ = 0, top_ = 0, width_ = 1, height_ = 1;
  double centre_x_ = 0, centre_y_ = 0;
  double scale_x_ = 1, scale_y_ = 1;
  session::Extent extent_;
  bool equal_aspect_ = true;
  double margin_ = kMargin;
  bool moved_ = false;
  std::uint64_t revision_ = 0;
};

}  // namespace keyscope::window
