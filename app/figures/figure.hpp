#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "analysis/matrix_view.hpp"
#include "app/figures/token_order.hpp"
#include "base/json.hpp"

namespace keyscope::figures {

struct Colour {
  std::uint8_t r = 0, g = 0, b = 0;
  bool operator==(const Colour&) const = default;
};

// Okabe & Ito's palette: distinguishable with every common colour vision.
inline constexpr Colour kBlue{0x00, 0x72, 0xB2};    // retained
inline constexpr Colour kOrange{0xE6, 0x9F, 0x00};  // evicted
inline constexpr Colour kGreen{0x00, 0x9E, 0x73};   // anchor
inline constexpr Colour kVermillion{0xD5, 0x5E, 0x00};
inline constexpr Colour kPurple{0xCC, 0x79, 0xA7};  // mean query
inline constexpr Colour kSkyBlue{0x56, 0xB4, 0xE9};
inline constexpr Colour kYellow{0xF0, 0xE4, 0x42};
inline constexpr Colour kBlack{0x00, 0x00, 0x00};     // the ink's colour on a dark background
inline constexpr Colour kCharcoal{0x33, 0x33, 0x33};  // as black, where black is taken
inline constexpr Colour kGrey{0x80, 0x80, 0x80};      // queries

// Shapes differ as well as colours, so that colour is never the only cue.
// The first five are those of the key space; the others are free for what is compared.
enum class Marker {
  kDisc,
  kRing,
  kDiamond,
  kCross,
  kTriangle,
  kSquare,
  kDownTriangle,
  kPlus,
  kOpenSquare,
  kStar,
  kOpenDownTriangle,
  kOpenDiamond,
  kCircle  // thin, about another marker
};

// Points with one look, one legend entry (none without a label). x, y (and z, in 3D) have one entry per
// point.
struct PointSeries {
  std::string label;
  std::string id;  // stable name, used in files: "retained", "evicted", "anchor", "mean_query"
  Colour colour;
  Marker marker = Marker::kDisc;
  float size_px = 5;  // diameter at 96 dpi
  std::vector<float> x, y, z;
  std::vector<std::int32_t> token;  // token position of each point; empty where points are no tokens
  std::vector<float> value;  // of each point on the panel's colour scale; empty: all have the series' colour
  bool faded = false;        // stands back, in a paler ink: what is not selected
  float dodge_pt = 0;        // drawn so far to the right of x on a page, where others stand at the same place
};

struct LineSeries {
  std::string label;
  std::string id;
  Colour colour;
  bool dashed = false;
  std::optional<Marker> marker;  // at every point, where there are few
  std::vector<float> x, y;
  float dodge_pt = 0;  // as that of points
};

// What lies between two lines over the same x, in a light tint of its colour; no legend entry of its own.
struct BandSeries {
  std::string label;  // what it is, for files
  std::string id;
  Colour colour;
  std::vector<float> x, low, high;
};

enum class ColourMap { kViridis, kDiverging };  // the diverging map is centred at 0

// What the colours of values say, as a colour bar shows it. NaN has a colour of its own.
struct ColourScale {
  std::string id;         // dataset name in files
  std::string long_name;  // what the values are
  std::string units;
  ColourMap colour_map = ColourMap::kViridis;
  float low = 0, high = 1;  // values outside take the end colours
  bool logarithmic = false;
  // What the values 0, 1, 2 … stand for, each with a colour of its own; empty: a scale of numbers.
  std::vector<std::string> categories = {};
  std::vector<Colour> category_colours = {};  // of each; empty: those of categories in general
};

// A matrix as an image: row 0 at the top.
struct Heatmap : ColourScale {
  RowMatrixF values;  // (rows, columns)

  // Column c stands for x in [x_first + c x_step, x_first + (c + 1) x_step), rows likewise; the last one may
  // stand for fewer, so what lies beyond x_end and y_end is no data. 0: first + n step.
  double x_first = 0, x_step = 1, x_end = 0;
  double y_first = 0, y_step = 1, y_end = 0;
  int decimals = -1;  // of the numbers that are written into the cells; -1: none are
  std::string reduction =
      "mean";  // how several cells become one, here and on small pages: "mean", "max", "min"

  double x_last() const { return x_end > x_first ? x_end : x_first + x_step * double(values.cols()); }
  double y_last() const { return y_end > y_first ? y_end : y_first + y_step * double(values.rows()); }
};

struct Axis {
  std::string label;
  std::string units;                         // empty: none
  std::vector<std::string> categories = {};  // what stands at 0, 1, 2 …; empty: a scale of numbers
  bool counted = false;                      // of things that are counted: no ticks between whole numbers
};

// The rectangle of the plane that points lie in.
struct Extent {
  double x_low = 0, x_high = 0, y_low = 0, y_high = 0;

  static constexpr Extent none();  // which nothing was included in yet
  bool empty() const { return x_low > x_high; }
  void include(double x, double y);  // points that are not finite have no place
  void include(const Extent& other);
  // In the header, since it is asked of every key.
  bool contains(double x, double y) const { return x >= x_low && x <= x_high && y >= y_low && y <= y_high; }
  bool contains(const Extent& other) const;
  bool operator==(const Extent&) const = default;
};

constexpr Extent Extent::none() {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  return {kFar, -kFar, kFar, -kFar};
}

// A point of space as it is seen: right and up in the picture, and how far into it.
struct Turned {
  double x = 0, y = 0, depth = 0;  // depth grows away from the eye
};

// A place that space is looked at from, without perspective; the third axis stands upright.
struct Orbit {
  double azimuth = -55 * std::numbers::pi / 180;  // radians, about the third axis
  double elevation = 24 * std::numbers::pi / 180;  // radians above the plane of the first two, within ± π / 2

  // By a drag across the picture, in radians: a point at the front follows it.
  void drag(double right, double down);

  Turned turn(double x, double y, double z) const;
  bool operator==(const Orbit&) const = default;
};

struct Panel {
  std::string id;  // group name in files
  std::string title;
  Axis x, y, z;
  std::vector<PointSeries> points;
  std::vector<LineSeries> lines;
  std::vector<BandSeries> bands;
  std::optional<Heatmap> heatmap;
  std::optional<TokenOrder> order;         // of the heatmap's rows and columns; empty: by token position
  std::optional<ColourScale> scale;        // of the points' values, where series have these
  std::string note;                        // drawn small under the title: "showing 1,024 of 4,096"
  std::vector<double> explained_variance;  // ratio per axis where the axes are principal components
  bool equal_aspect = false;               // one unit is as long on x as on y
  bool legend = true;
  std::optional<Extent> part;  // that is drawn, in two dimensions; empty: all
  Orbit orbit = {};            // that it is seen from, in three
  bool density = false;        // keys are counted in hexagons (density_of), not drawn one by one
  double hexagon = 0;          // their radius, in units of x; 0: as is usual on a page
  std::function<std::string(std::int32_t)> token_text = {};  // bytes of the tokens of points; may be empty

  bool is_3d() const { return !z.label.empty(); }
};

// What a figure shows, in the command line's words; a figure file reopens with it.
struct FigureView {
  std::vector<std::string> runs;
  int layer = -1;  // -1 here and below: does not apply
  int kv_head = -1;
  int query_head = -1;
  std::int64_t block = -1;
  int components = 0;  // principal components: 2 or 3
  // Of a key space, by their names on the command line; empty: does not apply.
  std::string projection = {}, colour = {};
};

// Panels of one kind in rows and columns: what they have in common stands once, outside them.
struct SmallMultiples {
  std::string row_label, column_label;     // what rows and columns are: "layer", "KV head"
  std::vector<std::string> rows, columns;  // the name of each: "0", "1"
};

inline constexpr std::size_t kMostPanels = 1000;  // of a figure

struct Figure {
  std::string name;  // as on the command line: "keyspace"
  std::string title;
  std::string caption;         // model, prompt, N, B, n
  int columns = 1;             // panels per row
  bool shared_ranges = false;  // all panels have the same axes, so that they can be compared by eye
  FigureView view;
  std::vector<Panel> panels;                // of small multiples: rows x columns of them, row by row
  std::optional<SmallMultiples> multiples;  // `columns` above is then of no account
};

// Everything of a figure but its numbers: names, labels, looks and the view. In a figure file it stands in
// the attribute `keyscope_figure`; the numbers are datasets.
nlohmann::json figure_to_json(const Figure& figure);

// The figure again, with empty data.
//   throws FileError where something is missing or of another kind
Figure figure_from_json(const JsonField& json);

}  // namespace keyscope::figures
