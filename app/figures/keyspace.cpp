#include "app/figures/keyspace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/similarity.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/keyspace_data.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/scales.hpp"
#include "app/measures/token_story.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

namespace {

using recording::Recording;
using recording::RecordingInfo;
using recording::RunInfo;

constexpr float kAnchorSize = 10;
constexpr std::size_t kTopKeys = 10;
constexpr float kCircleSize = 1.9F;  // of a top key's circle, for the size of its point
// Smaller points where there are many, so that clouds keep their shape.
float point_size(std::size_t n_points) {
  if (n_points <= 300) return 6;
  if (n_points <= 1500) return 4.5F;
  return n_points <= 8000 ? 3.5F : 2.5F;
}

PointSeries make_series(std::string id, std::string label, Colour colour, Marker marker) {
  PointSeries series;
  series.id = std::move(id);
  series.label = std::move(label);
  series.colour = colour;
  series.marker = marker;
  return series;
}

using Axes = std::span<const int>;  // columns of coordinates

bool is_placed(const RowMatrixF& coordinates, Eigen::Index row, Axes axes) {
  return std::ranges::all_of(axes, [&](int axis) { return std::isfinite(coordinates(row, axis)); });
}

// Appends row `row` of coordinates.
void add_point(PointSeries& series, const RowMatrixF& coordinates, Eigen::Index row, Axes axes) {
  series.x.push_back(coordinates(row, axes[0]));
  series.y.push_back(coordinates(row, axes[1]));
  if (axes.size() > 2) series.z.push_back(coordinates(row, axes[2]));
}

// One panel in the making.
class PanelMaker {
 public:
  PanelMaker(const KeyspaceBasis& basis, Projection projection, const RowMatrixF& coordinates,
             const KeyspaceContent& content, const KeyspaceStyle& style)
      : basis_(basis),
        projection_(projection),
        axes_(axes_of(projection)),
        coordinates_(coordinates),
        content_(content),
        style_(style) {}

  Panel make() {
    set_axes(panel_, projection_, basis_);
    if (content_.queries.rows() > 0) add_queries();
    add_keys();
    if (content_.n_seen == 0) {
      panel_.note = "no token was seen yet";
      return std::move(panel_);
    }
    add_top_keys();
    add_mean(content_.anchor, make_series("anchor", "anchor (mean key)", kGreen, Marker::kDiamond));
    add_mean(content_.mean_query, make_series("mean_query", "mean query", kPurple, Marker::kTriangle));
    return std::move(panel_);
  }

 private:
  float size_of_keys() const { return point_size(style_.n_keys < 0 ? content_.n_seen : style_.n_keys); }

  bool leaves_out(const RowMatrixF& coordinates, Eigen::Index row) const {
    return style_.only_placed && !is_placed(coordinates, row, axes_);
  }

  void add(PointSeries series, float size) {
    series.size_px = style_.mark_scale * size;
    panel_.points.push_back(std::move(series));
  }

  void add_queries() {
    PointSeries series = make_series("queries", "queries", kGrey, Marker::kCross);
    const RowMatrixF& queries = content_.queries;
    for (Eigen::Index row = 0; row < queries.rows(); ++row) {
      if (leaves_out(queries, row)) continue;
      add_point(series, queries, row, axes_);
      series.token.push_back(static_cast<std::int32_t>(row % content_.n_seen));
    }
    add(std::move(series), point_size(queries.rows()));
  }

  // Evicted rings first, so that the retained discs lie on top of them.
  void add_keys() {
    PointSeries evicted = make_series("evicted", "evicted", kOrange, Marker::kRing);
    PointSeries retained = make_series("retained", "retained", kBlue, Marker::kDisc);
    const std::vector<float>& values = content_.colours.values;
    std::size_t next = 0;
    for (std::int32_t token = 0; token < content_.n_seen; ++token) {
      const bool kept = next < content_.retained.size() && content_.retained[next] == token;
      if (kept) ++next;
      if (leaves_out(coordinates_, token)) continue;
      PointSeries& series = kept ? retained : evicted;
      add_point(series, coordinates_, token, axes_);
      series.token.push_back(token);
      if (!values.empty()) series.value.push_back(values[token]);
    }
    if (!values.empty()) panel_.scale = content_.colours.scale;
    panel_.note = note();
    add(std::move(evicted), size_of_keys());
    add(std::move(retained), size_of_keys());
  }

  std::string note() const {
    const std::int64_t n_seen = content_.n_seen, n_retained = std::ssize(content_.retained);
    std::int64_t n_placed = 0;
    for (std::int64_t token = 0; token < n_seen; ++token)
      n_placed += is_placed(coordinates_, token, axes_) ? 1 : 0;
    std::string text =
        n_retained == n_seen && n_seen > 1
            ? fmt::format("all {} keys retained", format_count(n_seen))
            : fmt::format("{} of {} keys retained", format_count(n_retained), format_count(n_seen));
    if (n_placed < n_seen)
      text += fmt::format("; showing {} of them, the others are not finite", format_count(n_placed));
    if (const std::string missing = values_note(content_.colours); !missing.empty()) text += "; " + missing;
    return text;
  }

  // Circles about the keys that KeyDiff scores highest of all seen, retained or not: Fig. 4 and 11.
  void add_top_keys() {
    const std::vector<std::int32_t>& top = content_.top_keys;
    if (top.empty()) return;
    PointSeries series = make_series(
        std::string(kTopKeysSeries),
        top.size() == 1 ? "highest KeyDiff score" : fmt::format("{} highest KeyDiff scores", top.size()),
        kCharcoal, Marker::kCircle);
    for (const std::int32_t token : top) {
      add_point(series, coordinates_, token, axes_);
      series.token.push_back(token);
    }
    add(std::move(series), kCircleSize * size_of_keys() + 2);
  }

  void add_mean(const Eigen::VectorXd& mean, PointSeries series) {
    const RowMatrixF row = mean.cast<float>().transpose();
    if (row.size() == 0 || !row.allFinite()) return;
    const RowMatrixF at = place_rows(projection_, basis_, content_.anchor, row);
    if (leaves_out(at, 0)) return;
    add_point(series, at, 0, axes_);
    add(std::move(series), kAnchorSize);
  }

  const KeyspaceBasis& basis_;
  Projection projection_;
  Axes axes_;
  const RowMatrixF& coordinates_;
  const KeyspaceContent& content_;
  const KeyspaceStyle& style_;
  Panel panel_;
};

}  // namespace

Panel keyspace_panel(const KeyspaceBasis& basis, Projection projection, const RowMatrixF& coordinates,
                     const KeyspaceContent& content, const KeyspaceStyle& style) {
  return PanelMaker(basis, projection, coordinates, content, style).make();
}

void count_in_hexagons(Panel& panel) {
  panel.density = true;
  panel.note += "; hexagons: the fuller, the more opaque, in the mean of their keys' colours";
}

std::string describe_axes(const RecordingInfo& info, const KeyspaceBasis& basis, Projection projection) {
  if (projection == Projection::kAnchor)
    return "Against the anchor, the mean of the keys seen by then, which moves from block to block.";
  return fmt::format(
      "Principal axes of the {} of run {}, one joint mean; shares of the variance in brackets.",
      basis.with_queries ? "keys and queries" : "keys (queries were not recorded)",
      info.runs[basis.run].plan.name);
}

namespace {

// What all panels of a figure have in common.
struct Common {
  const Recording& recording;
  const RecordingInfo& info;
  const KeyspaceBasis& basis;  // of the layer and KV head
  std::int64_t block;          // -1: each run's last prompt block
  KeyspaceLook look;
};

struct ShownRun {
  int run = 0;
  std::int64_t block = -1;
  RowMatrixF coordinates;  // (n_seen, dimensions) of the keys
  KeyspaceContent content;
};

// Where a key is not finite the anchor is not either, and no key has a score.
ShownRun read_run(const Common& common, int run) {
  const RecordingInfo& info = common.info;
  const int layer = common.basis.layer, kv_head = common.basis.kv_head;
  ShownRun shown;
  KeyspaceContent& content = shown.content;
  shown.run = run;
  shown.block = resolve_block(info.runs[run], common.block);
  content.n_seen = tokens_seen_by(info.runs[run], shown.block);
  if (content.n_seen == 0) return shown;
  const RowMatrixF keys = common.recording.keys(run, layer, kv_head, 0, content.n_seen);
  const recording::HeadTrace trace = common.recording.trace(run, layer, kv_head);
  content.retained = recording::retained_positions(trace.evicted_at, content.n_seen, shown.block);
  if (common.look.colour != KeyColour::kDecision)
    content.colours = key_values(common.recording, info,
                                 {run, layer, kv_head, shown.block, content.n_seen, common.look.reference},
                                 common.look.colour, keys, trace);
  content.anchor = analysis::mean_row(keys);
  content.top_keys = top_keydiff_keys(keys, kTopKeys);
  shown.coordinates = place_rows(common.look.projection, common.basis, content.anchor, keys);
  if (!info.queries) return shown;
  const RowMatrixF queries = common.recording.group_queries(run, layer, kv_head, 0, content.n_seen);
  content.mean_query = analysis::mean_row(queries);
  if (common.look.queries)
    content.queries = place_rows(common.look.projection, common.basis, content.anchor, queries);
  return shown;
}

Panel run_panel(const Common& common, const ShownRun& shown) {
  Panel panel = keyspace_panel(common.basis, common.look.projection, shown.coordinates, shown.content);
  panel.id = panel.title = common.info.runs[shown.run].plan.name;
  panel.token_text = [info = common.recording.info(), run = shown.run](std::int32_t token) {
    return measures::token_bytes(*info, run, token);
  };
  if (common.look.counts(shown.content.n_seen)) count_in_hexagons(panel);
  return panel;
}

// Fig. 5 d: what each policy retained, in one picture.
std::optional<Panel> overlay_panel(const Common& common, const std::vector<ShownRun>& runs) {
  Panel panel;
  panel.id = "retained_by_policy";
  panel.title = "retained, all policies";
  set_axes(panel, common.look.projection, common.basis);
  PolicyLooks looks;
  for (const ShownRun& shown : runs) {
    const RunInfo& run = common.info.runs[shown.run];
    if (run.plan.policy == "none" || shown.content.n_seen == 0) continue;
    const PolicyLooks::Look look = looks.next(run.plan.policy);
    PointSeries series = make_series(run.plan.name, run.plan.name, look.colour, look.marker);
    for (const std::int32_t token : shown.content.retained) {
      add_point(series, shown.coordinates, token, axes_of(common.look.projection));
      series.token.push_back(token);
    }
    series.size_px = point_size(series.x.size());
    panel.points.push_back(std::move(series));
  }
  if (panel.points.size() < 2) return std::nullopt;
  return panel;
}

// One row up to three panels, then as square a grid as can be.
int grid_columns(std::size_t n_panels) {
  if (n_panels <= 3) return static_cast<int>(n_panels);
  return n_panels == 4 ? 2 : 3;
}

std::string caption_of(const Common& common, const std::vector<int>& runs, std::int64_t block) {
  const RecordingInfo& info = common.info;
  std::string text = runs.size() == 1 ? describe_run(info, info.runs[runs.front()])
                                      : describe_prompt(info) + describe_budget(info, runs);
  if (block >= 0) text += fmt::format(", after block {}", block);
  return text + ". " + describe_axes(info, common.basis, common.look.projection);
}

FigureView view_of(const Common& common) {
  FigureView view;
  view.layer = common.basis.layer;
  view.kv_head = common.basis.kv_head;
  view.block = common.block;
  if (const Projection projection = common.look.projection;
      projection != Projection::kPca && projection != Projection::kPca3d)
    view.projection = id_of(projection);
  else
    view.components = dimensions_of(common.look.projection);
  if (common.look.colour != KeyColour::kDecision) view.colour = id_of(common.look.colour);
  return view;
}

}  // namespace

Figure keyspace_figure(const Recording& recording, const FigureRequest& request) {
  const auto info = recording.info();
  const std::vector<int> runs = chosen_runs(*info, request);
  const int layer = chosen_layer(*info, request), kv_head = chosen_kv_head(*info, request);
  KeyspaceLook look = chosen_look(request);
  if (request.reference) look.reference = find_run(*info, *request.reference);
  if (look.queries && !info->queries)
    throw FileError(fmt::format("{}: queries were not recorded, so there are none to show", info->source));
  if (runs.empty()) throw UsageError("no run is chosen to show in the key space");
  const KeyspaceBasis basis = fit_keyspace_basis(recording, layer, kv_head);
  const Common common{recording, *info, basis, request.block.value_or(-1), look};
  Figure figure;
  figure.name = "keyspace";
  figure.title = fmt::format("Key space of layer {}, KV head {}", layer, kv_head);
  figure.view = view_of(common);
  std::vector<ShownRun> shown;
  for (const int run : runs) {
    shown.push_back(read_run(common, run));
    figure.panels.push_back(run_panel(common, shown.back()));
    figure.view.runs.push_back(info->runs[run].plan.name);
  }
  if (shown.size() == 1) figure.view.block = shown.front().block;
  if (auto overlay = overlay_panel(common, shown)) figure.panels.push_back(std::move(*overlay));
  share_point_scales(figure.panels);
  figure.shared_ranges = true;
  figure.columns = grid_columns(figure.panels.size());
  figure.caption = caption_of(common, runs, figure.view.block);
  return figure;
}

std::vector<std::int32_t> top_keydiff_keys(const MatrixView& keys, std::size_t count) {
  const Eigen::VectorXd mean = analysis::mean_row(keys);
  if (keys.rows() == 0 || mean.norm() == 0 || !mean.allFinite()) return {};
  const Eigen::VectorXd cosines = analysis::cosines_to(keys, mean);
  std::vector<std::int32_t> positions(keys.rows());
  std::iota(positions.begin(), positions.end(), 0);
  count = std::min(count, positions.size());
  std::ranges::partial_sort(positions, positions.begin() + static_cast<std::ptrdiff_t>(count),
                            [&](std::int32_t a, std::int32_t b) {
                              return cosines[a] != cosines[b] ? cosines[a] < cosines[b] : a < b;
                            });
  positions.resize(count);
  return positions;
}

}  // namespace keyscope::figures
