#include "app/figures/token_selection.hpp"

#include <algorithm>
#include <cstddef>

namespace keyscope::figures {

namespace {

// Whether a ray to the right crosses the outline an odd number of times.
bool is_inside(const std::vector<OutlinePoint>& outline, double x, double y) {
  bool inside = false;
  for (std::size_t i = 0, before = outline.size() - 1; i < outline.size(); before = i++) {
    const OutlinePoint &a = outline[before], &b = outline[i];
    if ((a.y > y) != (b.y > y) && x < a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x)) inside = !inside;
  }
  return inside;
}

void copy_point(const PointSeries& from, std::size_t at, PointSeries& to) {
  to.x.push_back(from.x[at]);
  to.y.push_back(from.y[at]);
  if (!from.z.empty()) to.z.push_back(from.z[at]);
  to.token.push_back(from.token[at]);
  if (!from.value.empty()) to.value.push_back(from.value[at]);
}

PointSeries look_of(const PointSeries& series, bool faded) {
  PointSeries look;
  look.label = series.label;
  look.id = series.id;
  look.colour = series.colour;
  look.marker = series.marker;
  look.size_px = series.size_px;
  look.faded = faded;
  return look;
}

}  // namespace

bool contains(const TokenSet& tokens, std::int64_t position) {
  return std::ranges::binary_search(tokens, static_cast<std::int32_t>(position));
}

bool has_tokens(const Panel& panel) {
  return std::ranges::any_of(panel.points, [](const PointSeries& series) { return !series.token.empty(); });
}

TokenSet tokens_inside(const Panel& panel, const std::vector<std::string>& hidden,
                       const std::vector<OutlinePoint>& outline) {
  TokenSet tokens;
  if (outline.size() < 3) return tokens;
  Extent bounds = Extent::none();
  for (const OutlinePoint& point : outline) bounds.include(point.x, point.y);
  for (const PointSeries& series : panel.points) {
    const bool off = std::ranges::find(hidden, series.id) != hidden.end() || series.id == "queries";
    if (series.token.empty() || off) continue;
    for (std::size_t i = 0; i < series.x.size(); ++i)
      if (bounds.contains(series.x[i], series.y[i]) && is_inside(outline, series.x[i], series.y[i]))
        tokens.push_back(series.token[i]);
  }
  std::ranges::sort(tokens);
  const auto repeated = std::ranges::unique(tokens);
  tokens.erase(repeated.begin(), repeated.end());
  return tokens;
}

Panel fade_unselected(const Panel& panel, const TokenSet& tokens) {
  Panel result = panel;
  result.points.clear();
  std::vector<PointSeries> selected;
  for (const PointSeries& series : panel.points) {
    if (series.token.empty()) {
      selected.push_back(series);
      continue;
    }
    PointSeries inside = look_of(series, false), outside = look_of(series, true);
    for (std::size_t i = 0; i < series.x.size(); ++i)
      copy_point(series, i, contains(tokens, series.token[i]) ? inside : outside);
    result.points.push_back(std::move(outside));
    selected.push_back(std::move(inside));
  }
  std::ranges::move(selected, std::back_inserter(result.points));
  return result;
}

}  // namespace keyscope::figures
