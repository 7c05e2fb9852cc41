#include "app/figures/overlap.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "app/figures/head_selection.hpp"
#include "app/figures/labels.hpp"
#include "app/measures/retained_overlap.hpp"

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
  const auto evicts = [&](std::size_t i) {
    return info.runs[static_cast<std::size_t>(runs[i])].plan.policy != "none";
  };
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
    if (const auto& plan = info.runs[static_cast<std::size_t>(run)].plan; plan.policy != "none")
      budgets.insert(plan.budget);
  if (budgets.size() != 1 || *budgets.begin() >= info.n_prompt()) return "";
  return fmt::format(" Two sets of N drawn at random would overlap by {:.2f}.",
                     chance_overlap(*budgets.begin(), info.n_prompt()));
}

}  // namespace

Figure overlap_figure(const recording::Recording& recording, const OverlapSelection& selection) {
  const auto info = recording.info();
  Figure figure;
  for (const int run : selection.runs) {
    require_run(*info, run);
    resolve_block(info->runs[static_cast<std::size_t>(run)], selection.block);
    figure.view.runs.push_back(info->runs[static_cast<std::size_t>(run)].plan.name);
  }
  const auto [labels, key] = name_runs(*info, selection.runs);
  const RetainedOverlap overlap = measures::measure_overlap(recording, selection.runs, selection.block);
  const std::vector<Pair> pairs = evicting_pairs(*info, selection.runs);
  figure.name = "overlap";
  figure.title = "How alike the retained sets are";
  figure.panels.push_back(run_panel(labels, overlap));
  if (!pairs.empty()) figure.panels.push_back(layer_panel(*info, labels, overlap, pairs));
  figure.columns = 2;
  figure.view.block = selection.block;
  figure.caption = fmt::format(
      "{}{}. Mean over {} KV heads{}.{}{}", describe_prompt(*info), describe_budget(*info, selection.runs),
      info->model.n_kv_heads,
      selection.block < 0 ? " at the end of the prompt" : fmt::format(" after block {}", selection.block),
      chance_of(*info, selection.runs), key);
  return figure;
}

}  // namespace keyscope::figures
