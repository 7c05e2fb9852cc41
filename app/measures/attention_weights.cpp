#include "app/measures/attention_weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include "analysis/vector_math.hpp"
#include "app/measures/head_data.hpp"
#include "base/errors.hpp"
#include "capture/model/recorded_attention.hpp"

namespace keyscope::measures {

namespace {

using recording::Recording;
using recording::RunInfo;

std::int32_t block_of_query(const RunInfo& run, std::int64_t position) {
  const auto after = std::ranges::upper_bound(run.block_start, position);
  return static_cast<std::int32_t>(after - run.block_start.begin()) - 1;
}

// Softmax in place over the row's entries that are not NaN, in float64; the sink takes its part.
//   work: as many numbers
void softmax_visible(Eigen::Ref<Eigen::RowVectorXf> row, double sink, std::span<double> work) {
  double largest = sink;
  for (Eigen::Index i = 0; i < row.size(); ++i) {
    work[i] = std::isnan(row[i]) ? -std::numeric_limits<double>::infinity() : static_cast<double>(row[i]);
    largest = std::max(largest, work[i]);
  }
  if (std::isinf(largest)) return;
  const double sum =
      (std::isinf(sink) ? 0 : std::exp(sink - largest)) + analysis::exponentials(work, largest, work);
  for (Eigen::Index i = 0; i < row.size(); ++i)
    if (!std::isnan(row[i])) row[i] = static_cast<float>(work[i] / sum);
}

// q·k of queries from `first`, block by block, with keys where each block met them.
RowMatrixF products_by_place(const RowMatrixF& queries, const PlacedKeys& keys, std::int64_t n_keys,
                             const RunInfo& run, std::int64_t first) {
  RowMatrixF products(queries.rows(), n_keys);
  for (Eigen::Index row = 0; row < queries.rows();) {
    const std::int32_t block = block_of_query(run, first + row);
    Eigen::Index end = row + 1;
    while (end < queries.rows() && block_of_query(run, first + end) == block) ++end;
    products.middleRows(row, end - row) = queries.middleRows(row, end - row) * keys.met_by(block).transpose();
    row = end;
  }
  return products;
}

}  // namespace

void blank_invisible(RowMatrixF& weights, std::int64_t first, const RunInfo& run,
                     std::span<const std::int32_t> evicted_at, const analysis::AttentionRules& rules) {
  for (Eigen::Index r = 0; r < weights.rows(); ++r) {
    const std::int64_t query = first + r, oldest = rules.oldest_visible(query);
    const std::int32_t block = block_of_query(run, query);
    for (Eigen::Index key = 0; key < weights.cols(); ++key) {
      const bool in_reach =
          key >= oldest && key <= query && key < static_cast<Eigen::Index>(evicted_at.size());
      const std::int32_t evicted = in_reach ? evicted_at[key] : 0;
      const bool visible = in_reach && (evicted < 0 || evicted >= block);
      if (!visible) weights(r, key) = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

namespace {

// By rules that need not be the model's.
RowMatrixF weights_by(const Recording& recording, int run, int layer, int query_head, std::int64_t first,
                      std::int64_t count, const analysis::AttentionRules& rules) {
  const auto info = recording.info();
  if (!info->keys || !info->queries)
    throw FileError(fmt::format(
        "{}: attention was not recorded and cannot be recomputed: queries and keys are needed for "
        "that, and not both were recorded; capture with --record keys,queries,attention",
        info->source));
  const RunInfo& about = info->runs[run];
  const std::int64_t n_keys = first + count;
  const int kv_head = query_head / info->model.group_size(layer);
  const RowMatrixF queries = recording.queries(run, layer, query_head, first, count);
  const RowMatrixF keys = recording.keys(run, layer, kv_head, 0, n_keys);
  RowMatrixF weights =
      about.plan.cache_positions
          ? products_by_place(queries, PlacedKeys(recording, run, layer, kv_head, keys), n_keys, about, first)
          : RowMatrixF(queries * keys.transpose());
  // What is no number is infinite for now, as NaN will mean what is not visible.
  for (float& entry : weights.reshaped<Eigen::RowMajor>())
    entry = std::isfinite(entry) ? static_cast<float>(rules.score(entry))
                                 : std::numeric_limits<float>::infinity();
  blank_invisible(weights, first, about, recording.trace(run, layer, kv_head).evicted_at, rules);
  std::vector<double> work(weights.cols());
  for (Eigen::Index r = 0; r < weights.rows(); ++r) {
    if (std::ranges::any_of(weights.row(r), [](float score) { return std::isinf(score); }))
      throw FileError(
          fmt::format("{}: run {}, layer {}, query head {}: the query at position {} and a key that it sees "
                      "have a product "
                      "that float32 cannot hold; keys and queries must be finite",
                      info->source, about.plan.name, layer, query_head, first + r));
    softmax_visible(weights.row(r), rules.sink, work);
  }
  return weights;
}

constexpr std::int64_t kBandRows = 128;  // queries at a time: their scores stay in the cache

}  // namespace

RowMatrixF recompute_attention(const Recording& recording, int run, int layer, int query_head,
                               std::int64_t first, std::int64_t count) {
  const auto info = recording.info();
  const int group = info->model.group_size(layer);
  const auto rules = capture::group_rules(recording, *info, run, layer, query_head / group);
  return weights_by(recording, run, layer, query_head, first, count, rules[query_head % group]);
}

std::vector<double> received_without_sinks(const Recording& recording, const HeadSelection& selection) {
  const auto info = recording.info();
  const int group = info->model.group_size(selection.layer);
  const analysis::AttentionRules rules =
      capture::recorded_rules(*info, selection.layer);  // of no head: without a sink
  const std::int64_t n = std::min(info->n_prompt(), run_of(*info, selection.run).n_tokens);
  std::vector<double> received(n, 0);
  for (int g = 0; g < group; ++g)
    for (std::int64_t first = 0; first < n; first += kBandRows) {
      const RowMatrixF weights =
          weights_by(recording, selection.run, selection.layer, selection.kv_head * group + g, first,
                     std::min(kBandRows, n - first), rules);
      for (Eigen::Index row = 0; row < weights.rows(); ++row)
        for (Eigen::Index key = 0; key < weights.cols(); ++key)
          if (const float weight = weights(row, key); !std::isnan(weight))
            received[key] += static_cast<double>(weight) / group;
    }
  return received;
}

bool has_recorded_attention(const recording::RecordingInfo& info, int run) {
  return info.attention && !info.runs[run].plan.replayed;
}

RowMatrixF visible_attention(const Recording& recording, int run, int layer, int query_head,
                             std::int64_t first, std::int64_t count) {
  const auto info = recording.info();
  if (!has_recorded_attention(*info, run))
    return recompute_attention(recording, run, layer, query_head, first, count);
  const RowMatrixF rows = recording.attention(run, layer, query_head, first, count);
  RowMatrixF weights = rows.leftCols(std::min<Eigen::Index>(rows.cols(), first + count));
  blank_invisible(weights, first, info->runs[run],
                  recording.trace(run, layer, query_head / info->model.group_size(layer)).evicted_at,
                  capture::recorded_rules(*info, layer));
  return weights;
}

namespace {

using recording::RecordingInfo;

// Queries that belong to one block, and which block that is.
struct Band {
  std::int64_t block = 0, first = 0, last = 0;
};

std::vector<Band> bands_of(const RunInfo& run, std::int64_t first, std::int64_t last) {
  std::vector<Band> bands;
  const auto after = std::ranges::upper_bound(run.block_start, first);
  std::int64_t block = after - run.block_start.begin() - 1;
  for (; first < last; ++block) {
    const std::int64_t end = std::min(last, recording::tokens_seen(run, block));
    for (; first < end; first += kBandRows) bands.push_back({block, first, std::min(end, first + kBandRows)});
    first = end;
  }
  return bands;
}

void stop_if(bool cancelled) {
  if (cancelled) throw Cancelled("the token's story was left off");
}

// One head's keys, and which of them a query meets.
class VisibleKeys {
 public:
  VisibleKeys(const Recording& recording, const RecordingInfo& info, const HeadSelection& selection,
              std::int64_t n_keys)
      : run_(run_of(info, selection.run)),
        rules_(capture::group_rules(recording, info, selection.run, selection.layer, selection.kv_head)),
        keys_(recording.keys(selection.run, selection.layer, selection.kv_head, 0, n_keys)),
        evicted_at_(recording.trace(selection.run, selection.layer, selection.kv_head).evicted_at) {}

  // The rows that the cache held while a block was processed.
  struct Met {
    std::vector<std::int32_t> rows;  // ascending
    RowMatrixF keys;                 // of those; not filled where none has gone
  };
  Met met_by(std::int64_t block) const {
    const std::int64_t n_seen = std::min<std::int64_t>(keys_.rows(), recording::tokens_seen(run_, block));
    Met met{recording::retained_positions(evicted_at_, n_seen, block - 1), {}};
    if (std::ssize(met.rows) < n_seen) met.keys = keys_(met.rows, Eigen::all);
    return met;
  }

  // Adds the weights of one query head of the group on one token to `weights`, which begins with that of the
  // band's first query.
  void add_weights(int head, const RowMatrixF& queries, const Band& band, const Met& met,
                   std::int64_t position, double* weights) const {
    const auto at = std::ranges::lower_bound(met.rows, static_cast<std::int32_t>(position));
    if (at == met.rows.end() || *at != position) {
      std::fill_n(weights, band.last - band.first, std::numeric_limits<double>::quiet_NaN());
      return;
    }
    RowMatrixF products;
    if (met.keys.rows() > 0)
      products.noalias() = queries * met.keys.transpose();
    else
      products.noalias() = queries * keys_.topRows(std::ssize(met.rows)).transpose();
    for (std::int64_t query = band.first; query < band.last; ++query, ++weights)
      *weights +=
          weight_of(rules_[head], products.row(query - band.first), met.rows, query, at - met.rows.begin());
  }

 private:
  // Softmax at one of the rows, over those that the query sees: from the oldest in reach to its own.
  static double weight_of(const analysis::AttentionRules& rules,
                          const Eigen::Ref<const Eigen::RowVectorXf>& products,
                          const std::vector<std::int32_t>& rows, std::int64_t query, Eigen::Index at) {
    const auto begin =
        std::ranges::lower_bound(rows, static_cast<std::int32_t>(rules.oldest_visible(query))) - rows.begin();
    const auto end = std::ranges::upper_bound(rows, static_cast<std::int32_t>(query)) - rows.begin();
    if (at < begin || at >= end) return std::numeric_limits<double>::quiet_NaN();
    Eigen::ArrayXf scores = products.segment(begin, end - begin).transpose().array();
    if (rules.softcap > 0)
      for (float& score : scores) score = static_cast<float>(rules.score(score));
    else
      scores *= static_cast<float>(rules.scale);
    const float largest = std::max(scores.maxCoeff(), static_cast<float>(rules.sink)),
                own = scores[at - begin];
    const double sum =
        (scores - largest).exp().cast<double>().sum() + std::exp(rules.sink - static_cast<double>(largest));
    return std::exp(static_cast<double>(own) - static_cast<double>(largest)) / sum;
  }

  const RunInfo& run_;
  std::vector<analysis::AttentionRules> rules_;  // per query head of the group
  RowMatrixF keys_;
  std::vector<std::int32_t> evicted_at_;
};

// Of weights that are there as such, or whose keys move: whole rows, band after band.
std::vector<double> column_of_rows(const Recording& recording, const HeadSelection& selection, int group,
                                   std::int64_t position, std::int64_t first, std::int64_t last,
                                   const std::atomic<bool>& cancelled) {
  std::vector<double> column(last - first, 0);
  for (std::int64_t from = first; from < last; from += kBandRows) {
    stop_if(cancelled);
    const std::int64_t count = std::min(kBandRows, last - from);
    for (int g = 0; g < group; ++g) {
      const RowMatrixF weights = visible_attention(recording, selection.run, selection.layer,
                                                   selection.kv_head * group + g, from, count);
      for (std::int64_t row = 0; row < count; ++row)
        column[from - first + row] += static_cast<double>(weights(row, position));
    }
  }
  return column;
}

}  // namespace

std::vector<double> attention_column(const Recording& recording, const HeadSelection& selection,
                                     std::int64_t position, std::int64_t first, std::int64_t last,
                                     const std::atomic<bool>& cancelled) {
  const auto info = recording.info();
  const int group = info->model.group_size(selection.layer);
  const RunInfo& run = run_of(*info, selection.run);
  std::vector<double> column;
  if (first >= last) return column;
  if (has_recorded_attention(*info, selection.run) || run.plan.cache_positions) {
    column = column_of_rows(recording, selection, group, position, first, last, cancelled);
  } else {
    const VisibleKeys keys(recording, *info, selection, last);
    const std::vector<Band> bands = bands_of(run, first, last);
    column.assign(last - first, 0);
    oneapi::tbb::parallel_for(std::size_t{0}, bands.size(), [&](std::size_t i) {
      stop_if(cancelled);
      const Band& band = bands[i];
      const VisibleKeys::Met met = keys.met_by(band.block);
      for (int g = 0; g < group; ++g)
        keys.add_weights(g,
                         recording.queries(selection.run, selection.layer, selection.kv_head * group + g,
                                           band.first, band.last - band.first),
                         band, met, position, column.data() + (band.first - first));
    });
  }
  for (double& weight : column) weight /= group;
  return column;
}

}  // namespace keyscope::measures
