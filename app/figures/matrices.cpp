#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/measures/attention_weights.hpp"
#include "app/measures/token_story.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

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

namespace {

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
  factor = reduced.rows_per_cell();
  return reduced.finish();
}

// Keys, and where each one's token stands.
struct ChosenKeys {
  RowMatrixF keys;
  std::vector<std::int32_t> position;
  std::vector<std::uint8_t> retained;  // empty: all are
};

ChosenKeys chosen_keys(const Recording& recording, const CosineMatrixSelection& selection, std::int64_t block,
                       std::int64_t n_seen) {
  const auto trace = recording.trace(selection.run, selection.layer, selection.kv_head);
  const auto kept = recording::retained_positions(trace.evicted_at, n_seen, block);
  ChosenKeys chosen{recording.keys(selection.run, selection.layer, selection.kv_head, 0, n_seen), kept, {}};
  if (selection.retained_only) {
    chosen.keys = RowMatrixF(chosen.keys(kept, Eigen::all));
    return chosen;
  }
  chosen.position.resize(static_cast<std::size_t>(n_seen));
  std::iota(chosen.position.begin(), chosen.position.end(), 0);
  if (std::ssize(kept) == n_seen) return chosen;
  chosen.retained.assign(static_cast<std::size_t>(n_seen), 0);
  for (const std::int32_t position : kept) chosen.retained[static_cast<std::size_t>(position)] = 1;
  return chosen;
}

void refuse_too_many(const CosineMatrixSelection& selection, std::int64_t n_keys) {
  if (!selection.most_ordered || n_keys <= *selection.most_ordered) return;
  const bool elsewhere = n_keys <= kMostKeysInDendrogram;
  throw UsageError(
      fmt::format("{} keys are to be ordered by a dendrogram, whose time and memory grow with their square; "
                  "here at most {} are: choose an earlier block or retained keys only{}",
                  format_count(n_keys), format_count(*selection.most_ordered),
                  elsewhere ? ", or let `keyscope figure` do it" : ""));
}

// Puts the keys into the order of the dendrogram's leaves, and gives the tree in the places that they then
// have.
std::vector<analysis::Merge> order_by_dendrogram(ChosenKeys& chosen) {
  const Eigen::Index n_keys = chosen.keys.rows();
  analysis::Dendrogram tree = analysis::average_linkage(analysis::cosine_distances(chosen.keys), n_keys);
  std::vector<std::int32_t> place(tree.leaves.size());
  ChosenKeys ordered{chosen.keys(tree.leaves, Eigen::all), {}, {}};
  for (std::size_t at = 0; at < place.size(); ++at) {
    const auto row = static_cast<std::size_t>(tree.leaves[at]);
    place[row] = static_cast<std::int32_t>(at);
    ordered.position.push_back(chosen.position[row]);
    if (!chosen.retained.empty()) ordered.retained.push_back(chosen.retained[row]);
  }
  for (analysis::Merge& merge : tree.merges) {
    for (std::int32_t* cluster : {&merge.first, &merge.second})
      if (*cluster < n_keys) *cluster = place[static_cast<std::size_t>(*cluster)];
    if (merge.first > merge.second) std::swap(merge.first, merge.second);
  }
  chosen = std::move(ordered);
  return tree.merges;
}

// Where places are positions there is nothing to say.
std::optional<TokenOrder> order_of(const recording::RecordingInfo& info,
                                   const CosineMatrixSelection& selection, ChosenKeys& chosen) {
  const bool by_tree = selection.order == MatrixOrder::kDendrogram;
  if (!by_tree && !selection.retained_only) return std::nullopt;
  TokenOrder order;
  if (by_tree) order.merges = order_by_dendrogram(chosen);
  order.token = chosen.position;
  order.retained = chosen.retained;
  for (const std::int32_t position : order.token)
    order.text.push_back(measures::token_bytes(info, selection.run, position));
  return order;
}

std::string axis_label_of(const CosineMatrixSelection& selection) {
  if (selection.order == MatrixOrder::kDendrogram) return "token position of the key, by dendrogram";
  return selection.retained_only ? "token position of the retained key" : "token position of the key";
}

std::string caption_of(const CosineMatrixSelection& selection, const Panel& panel) {
  if (selection.order == MatrixOrder::kPosition) return "";
  std::string text = " Ordered by average linkage on 1 − cosine, which is the tree's height.";
  if (!panel.order->retained.empty()) text += " Full bars: retained; half bars: evicted by then.";
  return text;
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
  ChosenKeys chosen;
  if (n_seen > 0) chosen = chosen_keys(recording, selection, block, n_seen);
  if (selection.order == MatrixOrder::kDendrogram) refuse_too_many(selection, chosen.keys.rows());

  Panel panel;
  panel.id = "cosine_matrix";
  panel.equal_aspect = true;
  panel.x.label = panel.y.label = axis_label_of(selection);
  panel.order = order_of(*info, selection, chosen);
  panel.heatmap = make_heatmap(chosen.keys, selection);
  panel.note = reduction_note(*panel.heatmap, chosen.keys.rows());

  Figure figure;
  figure.name = "cosine-matrix";
  figure.title =
      fmt::format("Cosines between keys, layer {}, KV head {}", selection.layer, selection.kv_head);
  figure.view = {{run.plan.name}, selection.layer, selection.kv_head, -1, block, 0};
  figure.caption = fmt::format("{}. {} after block {}.{}", describe_run(*info, run),
                               selection.retained_only ? "Keys retained" : "All keys seen", block,
                               caption_of(selection, panel));
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::figures
