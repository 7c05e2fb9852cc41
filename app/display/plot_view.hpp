#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "app/figures/figure.hpp"
#include "app/session/head_points.hpp"

namespace keyscope::window {

struct Pixel {
  float x = 0, y = 0;
};

struct PlotPoint {
  double x = 0, y = 0;
};

// Which part of the plane a plot shows, and where on the screen. Pixels are the screen's, y downwards; the
// plane's y goes upwards, or downwards as a matrix's rows do. Until the user moves it, a view stays fitted
// when its frame changes size.
class PlotView {
 public:
  // Returns whether the frame is another one now.
  bool set_frame(float left, float top, float width, float height);
  void set_downwards(bool downwards);  // which way y goes

  // Shows all of `extent` with a margin. With equal aspect one unit is as long on x as on y.
  //   margin: on every side, as a share of the frame
  void fit(const figures::Extent& extent, bool equal_aspect, double margin = kMargin);
  static constexpr double kMargin = 0.05;

  // Shows the part of the plane that `other` does, in its own frame.
  void follow(const PlotView& other);

  void show(const figures::Extent& limits);  // exactly these, as the user moved it there
  void pan(float dx, float dy);
  void zoom_at(Pixel at, double factor);  // > 1: closer

  Pixel to_pixel(double x, double y) const;
  PlotPoint to_plane(Pixel at) const;
  bool contains(Pixel at) const;

  float left() const { return left_; }
  float top() const { return top_; }
  float width() const { return width_; }
  float height() const { return height_; }
  figures::Extent limits() const;
  PlotPoint centre() const { return {centre_x_, centre_y_}; }
  double pixels_per_unit_x() const { return scale_x_; }
  double pixels_per_unit_y() const { return scale_y_; }
  const figures::Extent& extent() const { return extent_; }  // that a fitted view shows
  bool equal_aspect() const { return equal_aspect_; }
  bool downwards() const { return downwards_; }

  bool moved() const { return moved_; }                 // by the user, since the last fit
  std::uint64_t revision() const { return revision_; }  // changes whenever the mapping does

 private:
  void show_extent();
  double sign() const { return downwards_ ? -1 : 1; }

  float left_ = 0, top_ = 0, width_ = 1, height_ = 1;
  double centre_x_ = 0, centre_y_ = 0;
  double scale_x_ = 1, scale_y_ = 1;
  figures::Extent extent_;
  bool equal_aspect_ = true, downwards_ = false;
  double margin_ = kMargin;
  bool moved_ = false;
  std::uint64_t revision_ = 0;
};

// What of the plane is shown, where the user chose it; nullopt: all is.
inline std::optional<figures::Extent> part_of(const PlotView& view) {
  return view.moved() ? std::optional(view.limits()) : std::nullopt;
}

// Finds the token under the cursor: a grid over the points of a panel that are tokens.
class PointIndex {
 public:
  // hidden: ids of series that are switched off; the arrays of `panel` are copied
  void build(const figures::Panel& panel, const std::vector<std::string>& hidden);

  // The token whose point is nearest to `at`, within `radius_px` on the screen; of equally near ones the last
  // drawn.
  std::optional<std::int32_t> nearest(const PlotView& view, Pixel at, float radius_px) const;

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    float x, y;
    std::int32_t token;
    std::int32_t order;  // of drawing
  };
  static constexpr int kCells = 192;  // along each side

  int column(double x) const;
  int row(double y) const;

  figures::Extent extent_;
  std::vector<Entry> entries_;        // by cell
  std::vector<std::uint32_t> start_;  // (kCells² + 1) first entry of each cell
};

}  // namespace keyscope::window
