#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/scales.hpp"
#include "app/measures/head_data.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

namespace {

using recording::HeadTrace;
using recording::RecordingInfo;
using recording::RunInfo;

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kMaxSize = 1024;  // rows and columns of the images

// The run whose queries attended: a replayed run has none of its own. -1: there is none.
int attending_run(const RecordingInfo& info, int run) {
  return info.runs[run].plan.replayed ? measures::full_cache_run(info) : run;
}

// (n_tokens) attention received per query that could see the token.
//   throws FileError where it is not finite
std::vector<double> attention_per_query(const HeadTrace& trace, std::size_t n_tokens,
                                        const std::string& source) {
  std::vector<double> values(n_tokens, kNoValue);
  const std::size_t n = std::min({n_tokens, trace.attention_received.size(), trace.attention_queries.size()});
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::isfinite(trace.attention_received[i]))
      throw FileError(
          fmt::format("{}: attention_received of token {} is {}", source, i, trace.attention_received[i]));
    if (trace.attention_queries[i] > 0) values[i] = trace.attention_received[i] / trace.attention_queries[i];
  }
  return values;
}

std::vector<double> margins(const HeadTrace& trace, std::size_t n_tokens) {
  std::vector<double> values(n_tokens, kNoValue);
  std::copy_n(trace.evicted_margin.begin(), std::min(n_tokens, trace.evicted_margin.size()), values.begin());
  return values;
}

// (n_tokens) attention that lives are coloured by; nothing where no run attended.
std::vector<double> life_values(const recording::Recording& recording, const measures::HeadSelection& head,
                                const HeadTrace& trace, int attending, std::size_t n_tokens) {
  if (attending < 0) return std::vector<double>(n_tokens, kNoValue);
  const std::string& source = recording.info()->source;
  if (attending == head.run) return attention_per_query(trace, n_tokens, source);
  return attention_per_query(recording.trace(attending, head.layer, head.kv_head), n_tokens, source);
}

Heatmap life_map(const LifeGrid& grid, RowMatrixF values, std::int64_t n_tokens, std::int64_t n_blocks) {
  Heatmap map;
  map.values = std::move(values);
  map.x_step = static_cast<double>(grid.blocks_per_column);
  map.x_end = static_cast<double>(n_blocks);
  map.y_step = static_cast<double>(grid.tokens_per_row);
  map.y_end = static_cast<double>(n_tokens);
  return map;
}

Panel life_panel(std::string id, std::string title, Heatmap map, const std::string& note) {
  Panel panel;
  panel.id = map.id = std::move(id);
  panel.title = map.long_name = std::move(title);
  panel.x = {"block", ""};
  panel.x.counted = true;
  panel.y = {"token position", ""};
  panel.y.counted = true;
  panel.note = note;
  panel.heatmap = std::move(map);
  return panel;
}

std::string cell_note(const LifeGrid& grid) {
  if (grid.tokens_per_row == 1 && grid.blocks_per_column == 1) return "";
  const auto counted = [](std::int64_t n, const char* what) {
    return fmt::format("{} {}{}", format_count(n), what, n == 1 ? "" : "s");
  };
  return fmt::format("a cell is the mean over {} and {}", counted(grid.tokens_per_row, "token"),
                     counted(grid.blocks_per_column, "block"));
}

}  // namespace

std::vector<Life> token_lives(const RunInfo& run, std::span<const std::int32_t> evicted_at,
                              std::span<const double> values) {
  std::vector<Life> lives;
  std::int64_t block = 0;
  for (std::int64_t token = 0; token < run.n_tokens; ++token) {
    while (recording::tokens_seen(run, block) <= token) ++block;
    const auto at = static_cast<std::size_t>(token);
    const std::int64_t gone = at < evicted_at.size() ? evicted_at[at] : -1;
    const bool evicted = gone >= 0 && gone < run.blocks_done;
    lives.push_back({block, std::max(block, evicted ? gone : run.blocks_done - 1), values[at]});
  }
  return lives;
}

Figure lifespans_figure(const recording::Recording& recording, const FigureRequest& request) {
  const auto info = recording.info();
  measures::HeadSelection head = chosen_head(*info, request);
  // By default of a run that evicts: in the others every life is the same.
  if (const int evicting = first_evicting_run(*info); request.runs.empty() && evicting >= 0)
    head.run = evicting;
  const RunInfo& run = info->runs[head.run];
  const auto n_tokens = static_cast<std::size_t>(run.n_tokens);
  const HeadTrace trace = recording.trace(head.run, head.layer, head.kv_head);
  const int attending = attending_run(*info, head.run);
  const auto values =
      request.margins ? margins(trace, n_tokens) : life_values(recording, head, trace, attending, n_tokens);
  const LifeGrid grid = grid_lives(token_lives(run, trace.evicted_at, values), run.blocks_done,
                                   request.max_size.value_or(kMaxSize));

  Figure figure;
  figure.name = "lifespans";
  figure.columns = 2;
  figure.view = {{run.plan.name}, head.layer, head.kv_head, -1, -1, 0};
  figure.title =
      fmt::format("Lifespans of tokens, {}, layer {}, KV head {}", run.plan.name, head.layer, head.kv_head);
  figure.panels.push_back(life_panel("in_cache", "share in the cache",
                                     life_map(grid, grid.share, run.n_tokens, run.blocks_done),
                                     cell_note(grid)));
  Heatmap coloured = life_map(grid, grid.value, run.n_tokens, run.blocks_done);
  coloured.logarithmic = !request.margins;
  fit_to_values(coloured);
  const char* title = request.margins ? "margin that it went by" : "attention received per query";
  figure.panels.push_back(life_panel(request.margins ? "margin" : "attention_per_query", title,
                                     std::move(coloured), cell_note(grid)));
  const std::string whose =
      request.margins || attending == head.run || attending < 0
          ? ""
          : fmt::format(" Attention is that of the run {}.", info->runs[attending].plan.name);
  figure.caption = fmt::format(
      "{}. A token lives from the block that it came with to the one at whose end it was evicted. Grey: not "
      "seen yet, or nothing there to be shown.{}",
      describe_run(*info, run), whose);
  return figure;
}

namespace {

using Eigen::Index;

// Sums over columns of blocks, filled by spans of blocks: the whole columns of a span as a step up and a step
// down, its ends as what they cover.
class SpanSums {
 public:
  SpanSums(Index rows, Index columns, std::int64_t width)
      : width_(width), ends_(RowMatrixD::Zero(rows, columns)), steps_(RowMatrixD::Zero(rows, columns + 1)) {}

  void add(Index row, std::int64_t first, std::int64_t last, double weight) {
    const Index from = first / width_, to = last / width_;
    if (from == to) {
      ends_(row, from) += weight * static_cast<double>(last - first + 1);
      return;
    }
    ends_(row, from) += weight * static_cast<double>((from + 1) * width_ - first);
    ends_(row, to) += weight * static_cast<double>(last - to * width_ + 1);
    steps_(row, from + 1) += weight * static_cast<double>(width_);
    steps_(row, to) -= weight * static_cast<double>(width_);
  }

  RowMatrixD finish() const {
    RowMatrixD sums = ends_;
    for (Index row = 0; row < sums.rows(); ++row) {
      double level = 0;
      for (Index column = 0; column < sums.cols(); ++column)
        sums(row, column) += level += steps_(row, column);
    }
    return sums;
  }

 private:
  std::int64_t width_;
  RowMatrixD ends_, steps_;
};

std::int64_t group_size(std::int64_t n, std::int64_t most) {
  return std::max<std::int64_t>(1, (n + most - 1) / most);
}

// Sums of counts are whole numbers, so that an empty cell is exactly 0.
RowMatrixF ratio(const RowMatrixD& sum, const RowMatrixD& count) {
  RowMatrixF result(sum.rows(), sum.cols());
  for (Index i = 0; i < sum.size(); ++i)
    result.data()[i] = count.data()[i] > 0 ? static_cast<float>(sum.data()[i] / count.data()[i])
                                           : std::numeric_limits<float>::quiet_NaN();
  return result;
}

}  // namespace

LifeGrid grid_lives(std::span<const Life> lives, std::int64_t n_blocks, std::int64_t max_size) {
  const auto n = static_cast<std::int64_t>(lives.size());
  LifeGrid grid{group_size(n, max_size), group_size(n_blocks, max_size), {}, {}};
  const Index rows = (n + grid.tokens_per_row - 1) / grid.tokens_per_row;
  const Index columns = (n_blocks + grid.blocks_per_column - 1) / grid.blocks_per_column;
  const SpanSums empty(rows, columns, grid.blocks_per_column);
  SpanSums seen = empty, cached = empty, valued = empty, values = empty;
  for (std::int64_t i = 0; i < n; ++i) {
    const Life& life = lives[i];
    const Index row = i / grid.tokens_per_row;
    seen.add(row, life.first, n_blocks - 1, 1);
    cached.add(row, life.first, life.last, 1);
    if (std::isnan(life.value)) continue;
    valued.add(row, life.first, life.last, 1);
    values.add(row, life.first, life.last, life.value);
  }
  grid.share = ratio(cached.finish(), seen.finish());
  grid.value = ratio(values.finish(), valued.finish());
  return grid;
}

}  // namespace keyscope::figures
