#include "app/figures/keyspace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/similarity.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/keyspace_data.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/scales.hpp"
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
// The overlay's looks, one per policy. No other series of the figure has one of these colours or markers. The
// first seven policies differ by their markers; colours repeat from the fourth on, so that a look comes again
// with the 22nd.
constexpr std::array<Colour, 3> kPolicyColours{kBlack, kSkyBlue, kVermillion};
constexpr std::array<Marker, 7> kPolicyMarkers{
    Marker::kSquare,      Marker::kDownTriangle,     Marker::kPlus,      Marker::kStar,
    Marker::kOpenDiamond, Marker::kOpenDownTriangle, Marker::kOpenSquare};

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

// Appends row `row` of projected coordinates (n, 2 or 3).
void add_point(PointSeries& series, const RowMatrixF& coordinates, Eigen::Index row) {
  series.x.push_back(coordinates(row, 0));
  series.y.push_back(coordinates(row, 1));
  if (coordinates.cols() > 2) series.z.push_back(coordinates(row, 2));
}

Panel empty_panel(const KeyspaceBasis& basis, Projection projection, std::string id, std::string title) {
  Panel panel;
  panel.id = std::move(id);
  panel.title = std::move(title);
  set_axes(panel, projection, basis);
  return panel;
}

// Everything a panel shows of one run at one moment.
struct Moment {
  int run = 0;
  std::int64_t block = -1;
  std::int64_t n_seen = 0;
  Eigen::VectorXd anchor;              // mean of the keys seen
  std::vector<std::int32_t> retained;  // ascending positions
  RowMatrixF coordinates;              // (n_seen, dimensions) of the keys
  KeyValues colours;
};

// What all panels have in common.
struct Ground {
  const Recording& recording;
  const RecordingInfo& info;
  const KeyspaceBasis& basis;  // of the layer and KV head
  std::int64_t block;          // -1: each run's last prompt block
  KeyspaceLook look;

  RowMatrixF place(const Moment& moment, const MatrixView& rows) const {
    return place_rows(look.projection, basis, moment.anchor, rows);
  }
};

Moment moment_of(const Ground& ground, int run, RowMatrixF& keys) {
  const RecordingInfo& info = ground.info;
  const int layer = ground.basis.layer, kv_head = ground.basis.kv_head;
  Moment moment;
  moment.run = run;
  moment.block = resolve_block(info.runs[run], ground.block);
  moment.n_seen = tokens_seen_by(info.runs[run], moment.block);
  keys.resize(0, info.model.head_dim);
  if (moment.n_seen > 0) {
    keys = ground.recording.keys(run, layer, kv_head, 0, moment.n_seen);
    const recording::HeadTrace trace = ground.recording.trace(run, layer, kv_head);
    moment.retained = recording::retained_positions(trace.evicted_at, moment.n_seen, moment.block);
    if (ground.look.colour != KeyColour::kDecision)
      moment.colours = key_values(ground.recording, info, {run, layer, kv_head, moment.block, moment.n_seen},
                                  ground.look.colour, keys, trace);
  }
  moment.anchor = analysis::mean_row(keys);
  moment.coordinates = ground.place(moment, keys);
  return moment;
}

void add_mean(Panel& panel, const Ground& ground, const Moment& moment, const RowMatrixF& rows,
              PointSeries look) {
  if (rows.rows() == 0) return;
  look.size_px = kAnchorSize;
  const RowMatrixF mean = analysis::mean_row(rows).cast<float>().transpose();
  if (!mean.allFinite()) return;
  add_point(look, ground.place(moment, mean), 0);
  panel.points.push_back(std::move(look));
}

// How many points have a place.
Eigen::Index placed(const RowMatrixF& coordinates) {
  Eigen::Index n = 0;
  for (const auto& row : coordinates.rowwise()) n += row.allFinite() ? 1 : 0;
  return n;
}

// Evicted rings first, so that the retained discs lie on top of them.
void add_keys(Panel& panel, const Moment& moment) {
  PointSeries evicted = make_series("evicted", "evicted", kOrange, Marker::kRing);
  PointSeries retained = make_series("retained", "retained", kBlue, Marker::kDisc);
  std::size_t next = 0;
  for (std::int32_t token = 0; token < moment.n_seen; ++token) {
    const bool kept = next < moment.retained.size() && moment.retained[next] == token;
    if (kept) ++next;
    PointSeries& series = kept ? retained : evicted;
    add_point(series, moment.coordinates, token);
    series.token.push_back(token);
    if (!moment.colours.values.empty())
      series.value.push_back(moment.colours.values[static_cast<std::size_t>(token)]);
  }
  if (!moment.colours.values.empty()) panel.scale = moment.colours.scale;
  const Eigen::Index n_placed = placed(moment.coordinates);
  panel.note =
      retained.x.size() == static_cast<std::size_t>(moment.n_seen) && moment.n_seen > 1
          ? fmt::format("all {} keys retained", format_count(moment.n_seen))
          : fmt::format("{} of {} keys retained", format_count(static_cast<long long>(retained.x.size())),
                        format_count(moment.n_seen));
  if (n_placed < moment.n_seen)
    panel.note += fmt::format("; showing {} of them, the others are not finite", format_count(n_placed));
  if (const std::string note = values_note(moment.colours); !note.empty()) panel.note += "; " + note;
  for (PointSeries* series : {&evicted, &retained}) {
    series->size_px = point_size(static_cast<std::size_t>(moment.n_seen));
    panel.points.push_back(std::move(*series));
  }
}

// Circles about the keys that KeyDiff scores highest of all seen, retained or not: Fig. 4 and 11. Where a key
// is not finite the anchor is not either, and no key has a score.
void add_top_keys(Panel& panel, const Moment& moment, const RowMatrixF& keys) {
  const std::vector<std::int32_t> top = top_keydiff_keys(keys, kTopKeys);
  if (top.empty()) return;
  PointSeries series = make_series(
      "top_keys",
      top.size() == 1 ? "highest KeyDiff score" : fmt::format("{} highest KeyDiff scores", top.size()),
      kCharcoal, Marker::kCircle);
  for (const std::int32_t token : top) {
    add_point(series, moment.coordinates, token);
    series.token.push_back(token);
  }
  series.size_px = kCircleSize * point_size(static_cast<std::size_t>(moment.n_seen)) + 2;
  panel.points.push_back(std::move(series));
}

void add_queries(Panel& panel, const Ground& ground, const Moment& moment, const RowMatrixF& queries) {
  PointSeries series = make_series("queries", "queries", kGrey, Marker::kCross);
  const RowMatrixF coordinates = ground.place(moment, queries);
  for (Eigen::Index row = 0; row < coordinates.rows(); ++row) {
    add_point(series, coordinates, row);
    series.token.push_back(static_cast<std::int32_t>(row % moment.n_seen));
  }
  series.size_px = point_size(series.x.size());
  panel.points.push_back(std::move(series));
}

Panel run_panel(const Ground& ground, int run, Moment& moment) {
  RowMatrixF keys;
  moment = moment_of(ground, run, keys);
  const std::string& name = ground.info.runs[run].plan.name;
  Panel panel = empty_panel(ground.basis, ground.look.projection, name, name);
  if (moment.n_seen == 0) {
    add_keys(panel, moment);
    panel.note = "no token was seen yet";
    return panel;
  }
  RowMatrixF queries(0, ground.info.model.head_dim);
  if (ground.info.queries)
    queries = group_queries(ground.recording, run, ground.basis.layer, ground.basis.kv_head, moment.n_seen);
  if (ground.look.queries) add_queries(panel, ground, moment, queries);
  add_keys(panel, moment);
  add_top_keys(panel, moment, keys);
  add_mean(panel, ground, moment, keys, make_series("anchor", "anchor (mean key)", kGreen, Marker::kDiamond));
  add_mean(panel, ground, moment, queries,
           make_series("mean_query", "mean query", kPurple, Marker::kTriangle));
  return panel;
}

// Fig. 5 d: what each policy retained, in one picture.
std::optional<Panel> overlay_panel(const Ground& ground, const std::vector<Moment>& moments) {
  Panel panel =
      empty_panel(ground.basis, ground.look.projection, "retained_by_policy", "retained, all policies");
  for (const Moment& moment : moments) {
    const RunInfo& run = ground.info.runs[moment.run];
    if (run.plan.policy == "none" || moment.n_seen == 0) continue;
    const std::size_t look = panel.points.size();
    PointSeries series =
        make_series(run.plan.name, run.plan.name, kPolicyColours[look % kPolicyColours.size()],
                    kPolicyMarkers[look % kPolicyMarkers.size()]);
    for (const std::int32_t token : moment.retained) {
      add_point(series, moment.coordinates, token);
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

std::vector<int> runs_of(const std::vector<Moment>& moments) {
  std::vector<int> runs;
  for (const Moment& moment : moments) runs.push_back(moment.run);
  return runs;
}

// What the axes are.
std::string describe_axes(const RecordingInfo& info, const KeyspaceBasis& basis, Projection projection) {
  if (projection == Projection::kAnchor)
    return "Against the anchor, the mean of the keys seen by then, which moves from block to block.";
  return fmt::format(
      "Principal axes of the {} of run {}, one joint mean; shares of the variance in brackets.",
      basis.with_queries ? "keys and queries" : "keys (queries were not recorded)",
      info.runs[basis.run].plan.name);
}

std::string caption_of(const Ground& ground, const std::vector<Moment>& moments, std::int64_t block) {
  const RecordingInfo& info = ground.info;
  std::string text = moments.size() == 1 ? describe_run(info, info.runs[moments.front().run])
                                         : describe_prompt(info) + describe_budget(info, runs_of(moments));
  if (block >= 0) text += fmt::format(", after block {}", block);
  return text + ". " + describe_axes(info, ground.basis, ground.look.projection);
}

FigureView view_of(const Ground& ground) {
  FigureView view;
  view.layer = ground.basis.layer;
  view.kv_head = ground.basis.kv_head;
  view.block = ground.block;
  if (ground.look.projection == Projection::kAnchor)
    view.projection = id_of(ground.look.projection);
  else
    view.components = dimensions_of(ground.look.projection);
  if (ground.look.colour != KeyColour::kDecision) view.colour = id_of(ground.look.colour);
  return view;
}

}  // namespace

Figure keyspace_figure(const Recording& recording, const FigureRequest& request) {
  const auto info = recording.info();
  const std::vector<int> runs = chosen_runs(*info, request);
  const int layer = chosen_layer(*info, request), kv_head = chosen_kv_head(*info, request);
  const KeyspaceLook look = chosen_look(request);
  if (look.queries && !info->queries)
    throw FileError(fmt::format("{}: queries were not recorded, so there are none to show", info->source));
  if (runs.empty()) throw UsageError("no run is chosen to show in the key space");
  const KeyspaceBasis basis = fit_keyspace_basis(recording, layer, kv_head);
  const Ground ground{recording, *info, basis, request.block.value_or(-1), look};
  Figure figure;
  figure.name = "keyspace";
  figure.title = fmt::format("Key space of layer {}, KV head {}", layer, kv_head);
  figure.view = view_of(ground);
  std::vector<Moment> moments(runs.size());
  for (std::size_t i = 0; i < moments.size(); ++i) {
    figure.panels.push_back(run_panel(ground, runs[i], moments[i]));
    figure.view.runs.push_back(info->runs[runs[i]].plan.name);
  }
  if (moments.size() == 1) figure.view.block = moments.front().block;
  if (auto overlay = overlay_panel(ground, moments)) figure.panels.push_back(std::move(*overlay));
  share_point_scales(figure.panels);
  figure.shared_ranges = true;
  figure.columns = grid_columns(figure.panels.size());
  figure.caption = caption_of(ground, moments, figure.view.block);
  return figure;
}

std::vector<std::int32_t> top_keydiff_keys(const MatrixView& keys, std::size_t count) {
  const Eigen::VectorXd mean = analysis::mean_row(keys);
  if (keys.rows() == 0 || mean.norm() == 0 || !mean.allFinite()) return {};
  const Eigen::VectorXd cosines = analysis::cosines_to(keys, mean);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(keys.rows()));
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
