#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/spread.hpp"
#include "app/measures/retained_sets.hpp"
#include "base/errors.hpp"

namespace keyscope::figures {

namespace {

using Eigen::Index;
using measures::RetainedOverlap;
using recording::RecordingInfo;

Heatmap overlap_map(Index n_rows, Index n_columns) {
  Heatmap heatmap;
  heatmap.id = "jaccard";
  heatmap.long_name = "Jaccard overlap of the retained sets";
  heatmap.values = RowMatrixF::Zero(n_rows, n_columns);
  heatmap.decimals = 2;
  heatmap.x_first = heatmap.y_first = -0.5;  // a cell's middle is its number
  heatmap.x_end = static_cast<double>(n_columns) - 0.5;
  heatmap.y_end = static_cast<double>(n_rows) - 0.5;
  return heatmap;
}

Panel run_panel(const std::vector<std::string>& labels, const RetainedOverlap& overlap) {
  Panel panel;
  panel.id = "runs";
  panel.title = "all layers";
  panel.equal_aspect = true;
  panel.x.categories = panel.y.categories = labels;
  panel.heatmap = overlap_map(overlap.mean.rows(), overlap.mean.cols());
  panel.heatmap->values = overlap.mean.cast<float>();
  return panel;
}

// Two evicting runs, by their places among the runs shown.
struct Pair {
  std::size_t a = 0, b = 0;
};

std::vector<Pair> evicting_pairs(const RecordingInfo& info, const std::vector<int>& runs) {
  const auto evicts = [&](std::size_t i) { return info.runs[runs[i]].plan.policy != "none"; };
  std::vector<Pair> pairs;
  for (std::size_t a = 0; a < runs.size(); ++a)
    for (std::size_t b = a + 1; b < runs.size(); ++b)
      if (evicts(a) && evicts(b)) pairs.push_back({a, b});
  return pairs;
}

Panel layer_panel(const RecordingInfo& info, const std::vector<std::string>& labels,
                  const RetainedOverlap& overlap, const std::vector<Pair>& pairs) {
  Panel panel;
  panel.id = "layers";
  panel.title = "by layer";
  panel.x.label = "layer";
  panel.heatmap = overlap_map(std::ssize(pairs), std::ssize(info.layers));
  if (info.layers.back() - info.layers.front() + 1 == std::ssize(info.layers)) {
    panel.heatmap->x_first += info.layers.front();
    panel.heatmap->x_end += info.layers.front();
  } else {
    for (const int layer : info.layers) panel.x.categories.push_back(fmt::format("{}", layer));
  }
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    panel.y.categories.push_back(fmt::format("{} – {}", labels[pairs[p].a], labels[pairs[p].b]));
    for (std::size_t layer = 0; layer < info.layers.size(); ++layer)
      panel.heatmap->values(static_cast<Index>(p), static_cast<Index>(layer)) = static_cast<float>(
          overlap.per_layer[layer](static_cast<Index>(pairs[p].a), static_cast<Index>(pairs[p].b)));
  }
  return panel;
}

// The mean Jaccard overlap of two sets of n of `total` tokens, each drawn at random: over how many they
// share, which is hypergeometric.
double chance_overlap(std::int64_t n, std::int64_t total) {
  const auto log_choose = [](std::int64_t of, std::int64_t chosen) {
    const auto log_factorial = [](std::int64_t i) { return std::lgamma(static_cast<double>(i) + 1); };
    return log_factorial(of) - log_factorial(chosen) - log_factorial(of - chosen);
  };
  double mean = 0;
  for (std::int64_t shared = std::max<std::int64_t>(0, 2 * n - total); shared <= n; ++shared)
    mean += std::exp(log_choose(n, shared) + log_choose(total - n, n - shared) - log_choose(total, n)) *
            static_cast<double>(shared) / static_cast<double>(2 * n - shared);
  return mean;
}

// What two sets drawn at random would share, where all have one size: a mark to judge the numbers by.
std::string chance_of(const RecordingInfo& info, const std::vector<int>& runs) {
  std::set<std::int64_t> budgets;
  for (const int run : runs)
    if (const auto& plan = info.runs[run].plan; plan.policy != "none") {
      const auto slots = recording::policy_options(plan);
      if (const auto split = slots.find("split"); split != slots.end() && split->second != "uniform")
        return "";
      const auto granularity = slots.find("granularity");
      const bool of_pages = granularity != slots.end() && granularity->second.starts_with("page");
      if (of_pages || !plan.budgets.empty()) return "";  // sets are smaller than N, or not all as large
      budgets.insert(plan.budget);
    }
  if (budgets.size() != 1 || *budgets.begin() >= info.n_prompt()) return "";
  return fmt::format(" Two sets of N drawn at random would overlap by {:.2f}.",
                     chance_overlap(*budgets.begin(), info.n_prompt()));
}

}  // namespace

Figure overlap_figure(const recording::Recording& recording, const FigureRequest& request) {
  const auto info = recording.info();
  const std::vector<int> runs = chosen_runs(*info, request);
  const std::int64_t block = request.block.value_or(-1);
  Figure figure;
  for (const int run : runs) {
    resolve_block(info->runs[run], block);
    figure.view.runs.push_back(info->runs[run].plan.name);
  }
  const auto [labels, key] = name_runs(*info, runs);
  const RetainedOverlap overlap = measures::measure_overlap(recording, runs, block);
  const std::vector<Pair> pairs = evicting_pairs(*info, runs);
  figure.name = "overlap";
  figure.title = "How alike the retained sets are";
  figure.panels.push_back(run_panel(labels, overlap));
  if (!pairs.empty()) figure.panels.push_back(layer_panel(*info, labels, overlap, pairs));
  figure.columns = 2;
  figure.view.block = block;
  figure.caption =
      fmt::format("{}{}. Mean over {}{}.{}{}", describe_prompt(*info), describe_budget(*info, runs),
                  describe_kv_heads(*info),
                  block < 0 ? " at the end of the prompt" : fmt::format(" after block {}", block),
                  chance_of(*info, runs), key);
  return figure;
}

namespace {

using measures::SetObjective;

constexpr std::int64_t kMostProducts = 2'000'000'000;  // a sweep of all searches: about a minute in all
constexpr double kSetOffset = 0.22;

// One of the sets whose objectives stand side by side.
struct Set {
  const char* id;
  const char* label;
  Colour colour;
  Marker marker;
  double SetObjective::*objective;
};
constexpr std::array kSets{
    Set{"retained", "retained by the run", kBlue, Marker::kDisc, &SetObjective::retained},
    Set{"at_once", "Eq. 8 on all keys at once", kOrange, Marker::kSquare, &SetObjective::at_once},
    Set{"best", "best set found", kGreen, Marker::kDiamond, &SetObjective::best}};

double mean_cosine(const SetObjective& head, double objective) {
  return objective / (static_cast<double>(head.n_retained) * static_cast<double>(head.n_retained));
}

std::int64_t heads_in_reach(const RecordingInfo& info, std::size_t n_runs) {
  const std::int64_t per_head = std::max<std::int64_t>(1, info.n_prompt() * info.model.head_dim);
  return std::max<std::int64_t>(1, kMostProducts / per_head / static_cast<std::int64_t>(n_runs));
}

Panel empty_panel(const char* id, const char* title, const char* y) {
  Panel panel;
  panel.id = id;
  panel.title = title;
  panel.y.label = y;
  return panel;
}

std::string note_of(const RecordingInfo& info, std::size_t n_measured, std::size_t n_unfinished) {
  const std::size_t n_heads = info.recorded_heads().size();
  std::string note = n_measured < n_heads ? fmt::format("{} of {} heads, evenly spaced", n_measured, n_heads)
                                          : fmt::format("{} head{}", n_heads, n_heads == 1 ? "" : "s");
  if (n_unfinished > 0) note += fmt::format("; {} searches stopped before they ended", n_unfinished);
  return note;
}

}  // namespace

Figure relaxation_gap_figure(const recording::Recording& recording, const FigureRequest& request) {
  const auto info = recording.info();
  const std::vector<int> runs = chosen_evicting_runs(*info, request);
  const std::int64_t block = request.block.value_or(-1);
  require_keys(*info);
  if (runs.empty())
    throw NothingToDraw(
        fmt::format("{}: no run that evicts was chosen: the full cache has no choice to make", info->source));
  std::vector<SpreadSeries> spreads;
  spreads.reserve(kSets.size());
  for (const Set& set : kSets) spreads.emplace_back(set.id, set.label, set.colour, set.marker, 5);
  SpreadSeries gaps("gap", "retained minus best", kBlack, Marker::kDisc, 5);
  Panel left = empty_panel("objective", "Eq. A.2's objective", "Σ cos / N²");
  Panel right = empty_panel("gap", "distance from the best set found", "difference of Σ cos / N²");
  Figure figure;
  std::size_t n_measured = 0, n_unfinished = 0;
  const auto [names, key] = name_runs(*info, runs);
  left.x.categories = right.x.categories = names;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const int run = runs[r];
    const auto& about = info->runs[run];
    const auto place = static_cast<double>(r);
    figure.view.runs.push_back(about.plan.name);
    const auto heads = measures::measure_set_objectives(
        recording, run, {resolve_block(about, block), heads_in_reach(*info, runs.size())});
    n_measured = std::max(n_measured, heads.size());
    std::vector<double> gap;
    for (const SetObjective& head : heads) {
      gap.push_back(head.gap());
      n_unfinished += head.converged || head.optimal ? 0 : 1;
    }
    gaps.add(place, gap);
    for (std::size_t s = 0; s < kSets.size(); ++s) {
      std::vector<double> values;
      values.reserve(heads.size());
      for (const SetObjective& head : heads) values.push_back(mean_cosine(head, head.*kSets.at(s).objective));
      spreads[s].add(place + kSetOffset * (static_cast<double>(s) - 1), values);
    }
  }
  left.note = right.note = note_of(*info, n_measured, n_unfinished);
  for (SpreadSeries& spread : spreads) std::move(spread).put_into(left);
  std::move(gaps).put_into(right);
  figure.name = "relaxation-gap";
  figure.title = "How far policies stay from the least redundant set";
  figure.columns = 2;
  figure.panels = {std::move(left), std::move(right)};
  figure.view.block = block;
  figure.caption = fmt::format(
      "{}{}. Median and 5 to 95 % of heads; N: the keys that the run retained, of all that it had seen.{}",
      describe_prompt(*info), describe_budget(*info, runs), key);
  return figure;
}

namespace {

using recording::RunInfo;

constexpr std::size_t kMostMarked = 64;  // more points than that and their markers would hide the line

std::size_t n_prompt_blocks(const RunInfo& run) {
  return std::min<std::int64_t>(run.plan.n_prompt_blocks, run.blocks_done);
}

bool is_timed(const RunInfo& run) {
  for (std::size_t block = 0; block < n_prompt_blocks(run); ++block)
    if (!std::isnan(run.block_ms[block])) return true;
  return false;
}

LineSeries line_of(const RunInfo& run, PolicyLooks::Look look) {
  LineSeries line;
  line.id = run.plan.name;
  line.label =
      run.plan.budget > 0 ? fmt::format("{}, N = {}", run.plan.name, run.plan.budget) : run.plan.name;
  line.colour = look.colour;
  for (std::size_t block = 0; block < n_prompt_blocks(run); ++block) {
    if (std::isnan(run.block_ms[block])) continue;
    line.x.push_back(static_cast<float>(run.block_start[block]));
    line.y.push_back(run.block_ms[block]);
  }
  if (line.x.size() <= kMostMarked) line.marker = look.marker;
  return line;
}

std::string block_sizes(const RecordingInfo& info, const std::vector<int>& runs) {
  std::set<std::int64_t> sizes;
  for (const int run : runs) sizes.insert(info.runs[run].plan.block_size);
  return sizes.size() == 1 ? fmt::format(", B = {}", *sizes.begin()) : "";
}

}  // namespace

bool has_block_times(const RecordingInfo& info) { return std::ranges::any_of(info.runs, is_timed); }

Figure block_times_figure(const recording::Recording& recording, const FigureRequest& request) {
  const auto info = recording.info();
  const std::vector<int> runs = chosen_runs(*info, request);
  Panel panel;
  panel.id = "block_times";
  panel.x = {"position of the block's first token", ""};
  panel.y = {"time per block", "ms"};
  Figure figure;
  PolicyLooks looks;
  for (const int index : runs) {
    const RunInfo& run = info->runs[index];
    const auto look = looks.next(run.plan.policy);
    figure.view.runs.push_back(run.plan.name);
    if (is_timed(run)) panel.lines.push_back(line_of(run, look));
  }
  if (panel.lines.empty())
    throw NothingToDraw(
        fmt::format("{}: blocks have no times: they went through one layer after another; capture "
                    "with --schedule block",
                    info->source));
  figure.name = "block-times";
  figure.title = "Time per block";
  figure.caption =
      fmt::format("{}{}, on {}", describe_prompt(*info), block_sizes(*info, runs), info->provenance.device);
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::figures
