#include "app/figures/cosine_matrix.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/head_selection.hpp"

namespace keyscope::figures {
namespace {

using recording::Recording;

constexpr Eigen::Index kBandRows = 256;

// Rows scaled to length one in float64; a row without length stays zero, as in analysis/similarity.
RowMatrixF unit_rows(const RowMatrixF& rows) {
  RowMatrixF unit(rows.rows(), rows.cols());
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    const double norm = rows.row(i).cast<double>().norm();
    unit.row(i) = (rows.row(i).cast<double>() / (norm > 0 ? norm : 1)).cast<float>();
  }
  return unit;
}

RowMatrixF cosines(const RowMatrixF& keys, const CosineMatrixSelection& selection, Eigen::Index& factor) {
  const RowMatrixF unit = unit_rows(keys);
  ReducedMatrix reduced(unit.rows(), unit.rows(), selection.max_size, selection.reduction);
  RowMatrixF band;
  for (Eigen::Index first = 0; first < unit.rows(); first += kBandRows) {
    const Eigen::Index n = std::min(kBandRows, unit.rows() - first);
    band.noalias() = unit.middleRows(first, n) * unit.transpose();
    reduced.add_rows(first, band);
  }
  factor = reduced.factor();
  return reduced.finish();
}

RowMatrixF chosen_keys(const Recording& recording, const CosineMatrixSelection& selection, std::int64_t block,
                       std::int64_t n_seen) {
  RowMatrixF keys = recording.keys(selection.run, selection.layer, selection.kv_head, 0, n_seen);
  if (!selection.retained_only) return keys;
  const auto trace = recording.trace(selection.run, selection.layer, selection.kv_head);
  const auto retained = recording::retained_positions(trace.evicted_at, n_seen, block);
  return keys(retained, Eigen::all);
}

Heatmap make_heatmap(const RowMatrixF& keys, const CosineMatrixSelection& selection) {
  Heatmap heatmap;
  heatmap.id = "cosine";
  heatmap.long_name = "cosine of two keys";
  heatmap.colour_map = ColourMap::kDiverging;
  heatmap.low = -1;
  heatmap.high = 1;
  Eigen::Index factor = 1;
  heatmap.values = cosines(keys, selection, factor);
  heatmap.x_step = heatmap.y_step = static_cast<double>(factor);
  heatmap.x_end = heatmap.y_end = static_cast<double>(keys.rows());
  heatmap.reduction = reduction_name(selection.reduction);
  return heatmap;
}

}  // namespace

Figure cosine_matrix_figure(const Recording& recording, const CosineMatrixSelection& selection) {
  const auto info = recording.info();
  require_run(*info, selection.run);
  require_layer(*info, selection.layer);
  require_kv_head(*info, selection.kv_head);
  require_keys(*info);
  const recording::RunInfo& run = info->runs[selection.run];
  const std::int64_t block = resolve_block(run, selection.block), n_seen = tokens_seen_by(run, block);
  const RowMatrixF keys = n_seen > 0 ? chosen_keys(recording, selection, block, n_seen) : RowMatrixF(0, 0);

  Panel panel;
  panel.id = "cosine_matrix";
  panel.equal_aspect = true;
  panel.x.label = panel.y.label =
      selection.retained_only ? "retained key, in time order" : "token position of the key";
  panel.heatmap = make_heatmap(keys, selection);
  panel.note = reduction_note(*panel.heatmap, keys.rows());

  Figure figure;
  figure.name = "cosine-matrix";
  figure.title =
      fmt::format("Cosines between keys, layer {}, KV head {}", selection.layer, selection.kv_head);
  figure.view = {{run.plan.name}, selection.layer, selection.kv_head, -1, block, 0};
  figure.caption = fmt::format("{}. {} after block {}.", describe_run(*info, run),
                               selection.retained_only ? "Keys retained" : "All keys seen", block);
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::figures
