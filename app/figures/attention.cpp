#include "app/figures/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/figures/head_selection.hpp"
#include "app/measures/attention_weights.hpp"

namespace keyscope::figures {
namespace {

using recording::Recording;

constexpr std::int64_t kBandRows = 256;
constexpr float kLogDecades = 1e-5F;  // the log scale's low end, as a share of its high end

// The scale ends at the largest weight shown; a logarithmic one starts at the smallest within five decades.
void fit_scale(Heatmap& heatmap) {
  float high = 0, smallest = std::numeric_limits<float>::max();
  for (const float value : heatmap.values.reshaped<Eigen::RowMajor>()) {
    if (std::isnan(value)) continue;
    high = std::max(high, value);
    if (value > 0) smallest = std::min(smallest, value);
  }
  heatmap.high = high > 0 ? high : 1;
  heatmap.low =
      heatmap.logarithmic ? std::max(std::min(smallest, heatmap.high), heatmap.high * kLogDecades) : 0;
}

Heatmap make_heatmap(const Recording& recording, const AttentionSelection& selection, std::int64_t n_seen) {
  ReducedMatrix reduced(n_seen, n_seen, selection.max_size, selection.reduction);
  for (std::int64_t first = 0; first < n_seen; first += kBandRows) {
    const std::int64_t count = std::min(kBandRows, n_seen - first);
    const RowMatrixF band = measures::visible_attention(recording, selection.run, selection.layer,
                                                        selection.query_head, first, count);
    reduced.add_rows(first, band.leftCols(std::min<Eigen::Index>(band.cols(), n_seen)));
  }
  Heatmap heatmap;
  heatmap.id = "attention";
  heatmap.long_name = "attention weight";
  heatmap.logarithmic = selection.logarithmic;
  heatmap.x_step = heatmap.y_step = static_cast<double>(reduced.rows_per_cell());
  heatmap.x_end = heatmap.y_end = static_cast<double>(n_seen);
  heatmap.reduction = reduction_name(selection.reduction);
  heatmap.values = reduced.finish();
  fit_scale(heatmap);
  return heatmap;
}

}  // namespace

Figure attention_figure(const Recording& recording, const AttentionSelection& selection) {
  const auto info = recording.info();
  require_run(*info, selection.run);
  require_layer(*info, selection.layer);
  require_query_head(*info, selection.query_head);
  const recording::RunInfo& run = info->runs[selection.run];
  const std::int64_t block = resolve_block(run, selection.block), n_seen = tokens_seen_by(run, block);

  Panel panel;
  panel.id = "attention";
  panel.equal_aspect = true;
  panel.x.label = "token position of the key";
  panel.y.label = "token position of the query";
  panel.heatmap = make_heatmap(recording, selection, n_seen);
  panel.note = reduction_note(*panel.heatmap, n_seen);

  Figure figure;
  figure.name = "attention";
  figure.title = fmt::format("Attention, layer {}, query head {}", selection.layer, selection.query_head);
  figure.view = {{run.plan.name},      selection.layer, selection.query_head / info->model.group_size(),
                 selection.query_head, block,           0};
  figure.caption = fmt::format(
      "{}. {} Grey: not visible to the query (later, or evicted by then).", describe_run(*info, run),
      measures::has_recorded_attention(*info, selection.run) ? "Weights as recorded."
                                                             : "Weights recomputed from queries and keys.");
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::figures
