#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/scales.hpp"
#include "app/measures/attention_weights.hpp"
#include "app/measures/token_story.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

namespace {

using measures::HeadSelection;
using recording::Recording;

constexpr std::int64_t kBandRows = 256;
constexpr int kMaxHeatmapSize = 1024;  // more tokens than this are reduced, and the panel's note says so
// In a cell of small multiples more would not be seen, and of a hundred cells each would cost.
constexpr int kSmallHeatmapSize = 256;

int max_size_of(const FigureRequest& request) {
  return request.small ? kSmallHeatmapSize : request.max_size.value_or(kMaxHeatmapSize);
}

Heatmap make_heatmap(const Recording& recording, const HeadSelection& head, int query_head,
                     const FigureRequest& request, std::int64_t n_seen) {
  const Reduction reduction = request.reduction.value_or(Reduction::kMax);
  ReducedMatrix reduced(n_seen, n_seen, max_size_of(request), reduction);
  for (std::int64_t first = 0; first < n_seen; first += kBandRows) {
    const std::int64_t count = std::min(kBandRows, n_seen - first);
    const RowMatrixF band =
        measures::visible_attention(recording, head.run, head.layer, query_head, first, count);
    reduced.add_rows(first, band.leftCols(std::min<Eigen::Index>(band.cols(), n_seen)));
  }
  Heatmap heatmap;
  heatmap.id = "attention";
  heatmap.long_name = "attention weight";
  heatmap.logarithmic = request.logarithmic;
  heatmap.x_step = heatmap.y_step = static_cast<double>(reduced.rows_per_cell());
  heatmap.x_end = heatmap.y_end = static_cast<double>(n_seen);
  heatmap.reduction = reduction_name(reduction);
  heatmap.values = reduced.finish();
  fit_to_values(heatmap);
  return heatmap;
}

// What is missing from the rows' sums.
std::string sink_sentence(const Recording& recording, const HeadSelection& head, int query_head) {
  const auto info = recording.info();
  if (!info->sinks) return "";
  const RowMatrixD sums = recording.statistics(head.run, head.layer).sink;
  const recording::RunInfo& run = info->runs[head.run];
  const std::int64_t n_blocks = std::min(run.blocks_done, run.plan.n_prompt_blocks);
  if (sums.cols() < n_blocks || n_blocks == 0)
    return " What a row lacks of 1 went to the head's learned sink.";
  const double taken = sums.row(query_head).head(n_blocks).sum();
  const auto n_queries = static_cast<double>(recording::tokens_seen(run, n_blocks - 1));
  return fmt::format(
      " What a row lacks of 1 went to the head's learned sink: {:.1f} % of the prompt's attention.",
      100 * taken / n_queries);
}

}  // namespace

Figure attention_figure(const Recording& recording, const FigureRequest& request) {
  const auto info = recording.info();
  const HeadSelection head = chosen_head(*info, request);
  const int query_head = chosen_query_head(*info, request);
  const recording::RunInfo& run = info->runs[head.run];
  const std::int64_t block = resolve_block(run, request.block.value_or(-1)),
                     n_seen = tokens_seen_by(run, block);

  Panel panel;
  panel.id = "attention";
  panel.equal_aspect = true;
  panel.x.label = "token position of the key";
  panel.y.label = "token position of the query";
  panel.heatmap = make_heatmap(recording, head, query_head, request, n_seen);
  panel.note = reduction_note(*panel.heatmap, n_seen);

  Figure figure;
  figure.name = "attention";
  figure.title = fmt::format("Attention, layer {}, query head {}", head.layer, query_head);
  figure.view = {{run.plan.name}, head.layer, head.kv_head, query_head, block, 0};
  figure.caption = fmt::format(
      "{}. {} Grey: not visible to the query (later, or evicted by then).{}", describe_run(*info, run),
      measures::has_recorded_attention(*info, head.run) ? "Weights as recorded."
                                                        : "Weights recomputed from queries and keys.",
      sink_sentence(recording, head, query_head));
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

RowMatrixF cosines(const RowMatrixF& keys, int max_size, Reduction reduction, Eigen::Index& factor) {
  const RowMatrixF unit = unit_rows(keys);
  ReducedMatrix reduced(unit.rows(), unit.rows(), max_size, reduction);
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

ChosenKeys chosen_keys(const Recording& recording, const HeadSelection& head, bool retained_only,
                       std::int64_t block, std::int64_t n_seen) {
  const auto trace = recording.trace(head.run, head.layer, head.kv_head);
  const auto kept = recording::retained_positions(trace.evicted_at, n_seen, block);
  ChosenKeys chosen{recording.keys(head.run, head.layer, head.kv_head, 0, n_seen), kept, {}};
  if (retained_only) {
    chosen.keys = RowMatrixF(chosen.keys(kept, Eigen::all));
    return chosen;
  }
  chosen.position.resize(n_seen);
  std::iota(chosen.position.begin(), chosen.position.end(), 0);
  if (std::ssize(kept) == n_seen) return chosen;
  chosen.retained.assign(n_seen, 0);
  for (const std::int32_t position : kept) chosen.retained[position] = 1;
  return chosen;
}

void refuse_too_many(const FigureRequest& request, std::int64_t n_keys) {
  if (!request.most_ordered || n_keys <= *request.most_ordered) return;
  const bool elsewhere = n_keys <= kMostKeysInDendrogram;
  throw UsageError(
      fmt::format("{} keys are to be ordered by a dendrogram, whose time and memory grow with their square; "
                  "here at most {} are: choose an earlier block or retained keys only{}",
                  format_count(n_keys), format_count(*request.most_ordered),
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
    const std::int32_t row = tree.leaves[at];
    place[row] = static_cast<std::int32_t>(at);
    ordered.position.push_back(chosen.position[row]);
    if (!chosen.retained.empty()) ordered.retained.push_back(chosen.retained[row]);
  }
  for (analysis::Merge& merge : tree.merges) {
    for (std::int32_t* cluster : {&merge.first, &merge.second})
      if (*cluster < n_keys) *cluster = place[*cluster];
    if (merge.first > merge.second) std::swap(merge.first, merge.second);
  }
  chosen = std::move(ordered);
  return tree.merges;
}

// Where places are positions there is nothing to say.
std::optional<TokenOrder> order_of(const recording::RecordingInfo& info, int run,
                                   const FigureRequest& request, ChosenKeys& chosen) {
  const bool by_tree = request.order == MatrixOrder::kDendrogram;
  if (!by_tree && !request.retained_only) return std::nullopt;
  TokenOrder order;
  if (by_tree) order.merges = order_by_dendrogram(chosen);
  order.token = chosen.position;
  order.retained = chosen.retained;
  for (const std::int32_t position : order.token)
    order.text.push_back(measures::token_bytes(info, run, position));
  return order;
}

std::string axis_label_of(const FigureRequest& request) {
  if (request.order == MatrixOrder::kDendrogram) return "token position of the key, by dendrogram";
  return request.retained_only ? "token position of the retained key" : "token position of the key";
}

std::string caption_of(const FigureRequest& request, const Panel& panel) {
  const auto& order = panel.order;
  if (!order || request.order == MatrixOrder::kPosition) return "";
  std::string text = " Ordered by average linkage on 1 − cosine, which is the tree's height.";
  if (!order->retained.empty()) text += " Full bars: retained; half bars: evicted by then.";
  return text;
}

Heatmap make_heatmap(const RowMatrixF& keys, const FigureRequest& request) {
  const Reduction reduction = request.reduction.value_or(Reduction::kMean);
  Heatmap heatmap;
  heatmap.id = "cosine";
  heatmap.long_name = "cosine of two keys";
  heatmap.colour_map = ColourMap::kDiverging;
  heatmap.low = -1;
  heatmap.high = 1;
  Eigen::Index factor = 1;
  heatmap.values = cosines(keys, max_size_of(request), reduction, factor);
  heatmap.x_step = heatmap.y_step = static_cast<double>(factor);
  heatmap.x_end = heatmap.y_end = static_cast<double>(keys.rows());
  heatmap.reduction = reduction_name(reduction);
  return heatmap;
}

}  // namespace

Figure cosine_matrix_figure(const Recording& recording, const FigureRequest& request) {
  const auto info = recording.info();
  const HeadSelection head = chosen_head(*info, request);
  require_keys(*info);
  const recording::RunInfo& run = info->runs[head.run];
  const std::int64_t block = resolve_block(run, request.block.value_or(-1)),
                     n_seen = tokens_seen_by(run, block);
  ChosenKeys chosen;
  if (n_seen > 0) chosen = chosen_keys(recording, head, request.retained_only, block, n_seen);
  if (request.order == MatrixOrder::kDendrogram) refuse_too_many(request, chosen.keys.rows());

  Panel panel;
  panel.id = "cosine_matrix";
  panel.equal_aspect = true;
  panel.x.label = panel.y.label = axis_label_of(request);
  panel.order = order_of(*info, head.run, request, chosen);
  panel.heatmap = make_heatmap(chosen.keys, request);
  panel.note = reduction_note(*panel.heatmap, chosen.keys.rows());

  Figure figure;
  figure.name = "cosine-matrix";
  figure.title = fmt::format("Cosines between keys, layer {}, KV head {}", head.layer, head.kv_head);
  figure.view = {{run.plan.name}, head.layer, head.kv_head, -1, block, 0};
  figure.caption = fmt::format("{}. {} after block {}.{}", describe_run(*info, run),
                               request.retained_only ? "Keys retained" : "All keys seen", block,
                               caption_of(request, panel));
  figure.panels.push_back(std::move(panel));
  return figure;
}

Figure cosine_and_attention_figure(const Recording& recording, const FigureRequest& request) {
  Figure figure = attention_figure(recording, request);
  Figure cosines = cosine_matrix_figure(recording, request);
  figure.name = "cosine-and-attention";
  figure.title = fmt::format("Cosines of keys beside attention, layer {}, query head {}", figure.view.layer,
                             figure.view.query_head);
  cosines.panels.front().title = "cosines of keys";
  figure.panels.front().title = "attention";
  figure.panels.insert(figure.panels.begin(), std::move(cosines.panels.front()));
  figure.columns = 2;
  return figure;
}

}  // namespace keyscope::figures
