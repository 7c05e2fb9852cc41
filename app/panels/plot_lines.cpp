#include "app/panels/plot_lines.hpp"

#include <algorithm>
#include <cmath>

#include "app/panels/markers.hpp"

namespace keyscope::window {
namespace {

constexpr float kDashPx = 6, kGapPx = 4;
constexpr float kBandAlpha = 0.18F;
constexpr float kFarPx = 1e5F;  // so far outside the plot that the slope there cannot be seen

// What came into one column of pixels.
struct Column {
  float x = 0;
  Pixel first, last, lowest, highest;
  bool empty = true;

  void add(Pixel at) {
    if (empty) {
      first = last = lowest = highest = at;
      x = std::floor(at.x);
      empty = false;
      return;
    }
    last = at;
    if (at.y > lowest.y) lowest = at;
    if (at.y < highest.y) highest = at;
  }

  void append_to(std::vector<Pixel>& line) {
    if (empty) return;
    const auto push = [&](Pixel at) {
      if (line.empty() || line.back().x != at.x || line.back().y != at.y) line.push_back(at);
    };
    push(first), push(lowest), push(highest), push(last);
    empty = true;
  }
};

void draw_dashes(ImDrawList& list, const std::vector<Pixel>& line, ImU32 colour, float width) {
  float walked = 0;  // along the line, over all its pieces
  for (std::size_t i = 1; i < line.size(); ++i) {
    const Pixel from = line[i - 1], to = line[i];
    const float length = std::hypot(to.x - from.x, to.y - from.y);
    float done = 0;
    while (done < length) {
      const float phase = std::fmod(walked + done, kDashPx + kGapPx);
      const bool inked = phase < kDashPx;
      const float step = std::min(length - done, (inked ? kDashPx : kDashPx + kGapPx) - phase + 0.01F);
      const auto at = [&](float share) {
        return ImVec2(from.x + share * (to.x - from.x), from.y + share * (to.y - from.y));
      };
      if (inked) list.AddLine(at(done / length), at((done + step) / length), colour, width);
      done += step;
    }
    walked += length;
  }
}

}  // namespace

std::vector<std::vector<Pixel>> thinned_line(const figures::LineSeries& series, const PlotView& view) {
  std::vector<std::vector<Pixel>> lines;
  std::vector<Pixel> line;
  Column column;
  const auto end_line = [&] {
    column.append_to(line);
    if (!line.empty()) lines.push_back(std::move(line));
    line.clear();
  };
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) {
      end_line();
      continue;
    }
    Pixel at = view.to_pixel(series.x[i], series.y[i]);
    at.x = std::clamp(at.x, view.left() - kFarPx, view.left() + view.width() + kFarPx);
    at.y = std::clamp(at.y, view.top() - kFarPx, view.top() + view.height() + kFarPx);
    if (!column.empty && std::floor(at.x) != column.x) column.append_to(line);
    column.add(at);
  }
  end_line();
  return lines;
}

void draw_band(ImDrawList& list, const Theme& theme, const figures::BandSeries& band, const PlotView& view) {
  const ImU32 colour = ink_colour(theme, band.colour, kBandAlpha);
  const auto at = [&](std::size_t i, float y) {
    const Pixel pixel = view.to_pixel(band.x[i], y);
    return ImVec2(std::clamp(pixel.x, -kFarPx, kFarPx), std::clamp(pixel.y, -kFarPx, kFarPx));
  };
  const auto known = [&](std::size_t i) { return std::isfinite(band.low[i]) && std::isfinite(band.high[i]); };
  // Unsmoothed: smoothed edges of neighbours would show as seams.
  const ImDrawListFlags flags = list.Flags;
  list.Flags &= ~ImDrawListFlags_AntiAliasedFill;
  for (std::size_t i = 1; i < band.x.size(); ++i)
    if (known(i - 1) && known(i))
      list.AddQuadFilled(at(i - 1, band.high[i - 1]), at(i, band.high[i]), at(i, band.low[i]),
                         at(i - 1, band.low[i - 1]), colour);
  list.Flags = flags;
}

void draw_line(ImDrawList& list, const Theme& theme, const figures::LineSeries& series, const PlotView& view,
               float width, float marker_px) {
  const ImU32 colour = ink_colour(theme, series.colour);
  std::vector<ImVec2> points;
  for (const std::vector<Pixel>& line : thinned_line(series, view)) {
    if (series.dashed) {
      draw_dashes(list, line, colour, width);
      continue;
    }
    points.clear();
    for (const Pixel at : line) points.emplace_back(at.x, at.y);
    list.AddPolyline(points.data(), static_cast<int>(points.size()), colour, 0, width);
  }
  if (!series.marker) return;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) continue;
    const Pixel at = view.to_pixel(series.x[i], series.y[i]);
    if (view.contains(at)) draw_marker(list, *series.marker, {at.x, at.y}, marker_px, colour, 0);
  }
}

}  // namespace keyscope::window
