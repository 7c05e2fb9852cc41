#include "app/results/prompts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "analysis/quantiles.hpp"
#include "app/figures/axis_ticks.hpp"

namespace keyscope::validation {
namespace {

using figures::Figure;
using figures::LineSeries;
using figures::Panel;

constexpr std::int64_t kMostBins = 20;
constexpr int kCurvePoints = 200;

void require_lengths(std::span<const std::int64_t> lengths) {
  if (lengths.empty()) throw InvalidInput("prompt lengths: none are given; expected at least one");
  for (const std::int64_t length : lengths)
    if (length < 1) throw InvalidInput(fmt::format("prompt lengths: {} tokens; expected 1 or more", length));
}

// The smallest of 1, 2, 5, 10, 20, ... with which so many tokens fit into the bins.
std::int64_t bin_width(std::int64_t least, std::int64_t most) {
  for (std::int64_t power = 1;; power *= 10)
    for (const std::int64_t step : {1, 2, 5})
      if (most / (step * power) - least / (step * power) < kMostBins) return step * power;
}

Panel histogram_panel(const PromptLengths& lengths) {
  Panel panel;
  panel.id = "histogram";
  panel.x = {"prompt length", "tokens", {}, true};
  panel.y = {"prompts", "", {}, true};
  panel.note = fmt::format(
      "median {}, 95th percentile {}, longest {}", figures::format_count(std::llround(lengths.median)),
      figures::format_count(std::llround(lengths.p95)), figures::format_count(lengths.most));
  LineSeries outline;
  outline.id = "prompts";
  outline.colour = figures::kBlue;
  const auto add = [&](std::int64_t x, std::int64_t y) {
    outline.x.push_back(static_cast<float>(x));
    outline.y.push_back(static_cast<float>(y));
  };
  add(lengths.bins.front().first, 0);
  for (const LengthBin& bin : lengths.bins) {
    add(bin.first, bin.n_prompts);
    add(bin.end, bin.n_prompts);
  }
  add(lengths.bins.back().end, 0);
  figures::BandSeries filled{"prompts", "filled", figures::kBlue, outline.x, {}, outline.y};
  filled.low.assign(outline.x.size(), 0);
  panel.lines.push_back(std::move(outline));
  panel.bands.push_back(std::move(filled));
  return panel;
}

Panel ratio_panel(const PromptLengths& lengths) {
  Panel panel;
  panel.id = "compression";
  panel.x = {"budget N", "tokens", {}, true};
  panel.y.label = "mean of min(1, N / length)";
  panel.note = "share of a prompt that the cache keeps, mean over prompts";
  LineSeries curve;
  curve.id = "curve";
  curve.colour = figures::kBlue;
  const std::int64_t end = std::max(lengths.most, *std::ranges::max_element(lengths.budgets));
  for (int i = 1; i <= kCurvePoints; ++i) {
    const std::int64_t budget = std::max<std::int64_t>(1, end * i / kCurvePoints);
    curve.x.push_back(static_cast<float>(budget));
    curve.y.push_back(static_cast<float>(mean_compression_ratio(lengths.lengths, budget)));
  }
  figures::PointSeries marks;
  marks.id = "budgets";
  marks.colour = figures::kVermillion;
  marks.size_px = 7;
  for (std::size_t i = 0; i < lengths.budgets.size(); ++i) {
    marks.label += fmt::format("{}N = {}: {:.3f}", i > 0 ? ", " : "",
                               figures::format_count(lengths.budgets[i]), lengths.ratios[i]);
    marks.x.push_back(static_cast<float>(lengths.budgets[i]));
    marks.y.push_back(static_cast<float>(lengths.ratios[i]));
  }
  panel.lines.push_back(std::move(curve));
  panel.points.push_back(std::move(marks));
  return panel;
}

}  // namespace

double mean_compression_ratio(std::span<const std::int64_t> lengths, std::int64_t budget) {
  require_lengths(lengths);
  if (budget < 1) throw InvalidInput(fmt::format("a budget of {} tokens; expected 1 or more", budget));
  double sum = 0;
  for (const std::int64_t length : lengths)
    sum += std::min(1.0, static_cast<double>(budget) / static_cast<double>(length));
  return sum / static_cast<double>(lengths.size());
}

std::vector<LengthBin> bin_lengths(std::span<const std::int64_t> lengths) {
  require_lengths(lengths);
  const auto [least, most] = std::ranges::minmax(lengths);
  const std::int64_t width = bin_width(least, most);
  std::vector<LengthBin> bins;
  for (std::int64_t first = least / width * width; first <= most; first += width)
    bins.push_back({first, first + width, 0});
  for (const std::int64_t length : lengths)
    ++bins[static_cast<std::size_t>(length / width - least / width)].n_prompts;
  return bins;
}

PromptLengths measure_lengths(std::vector<std::int64_t> lengths, std::vector<std::int64_t> budgets) {
  PromptLengths measured;
  measured.bins = bin_lengths(lengths);
  measured.least = std::ranges::min(lengths);
  measured.most = std::ranges::max(lengths);
  const std::vector<double> values(lengths.begin(), lengths.end());
  measured.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  const auto at = analysis::quantiles(values, std::array{0.5, 0.95});
  measured.median = at[0];
  measured.p95 = at[1];
  for (const std::int64_t budget : budgets)
    measured.ratios.push_back(mean_compression_ratio(lengths, budget));
  measured.budgets = std::move(budgets);
  measured.lengths = std::move(lengths);
  return measured;
}

Figure prompt_lengths_figure(const PromptLengths& lengths, const std::string& source) {
  Figure figure;
  figure.name = "prompt-lengths";
  figure.title = "Lengths of the prompts";
  figure.columns = 2;
  figure.panels.push_back(histogram_panel(lengths));
  if (!lengths.budgets.empty()) {
    figure.title = "Lengths of the prompts, and what budgets keep of them";
    figure.panels.push_back(ratio_panel(lengths));
  }
  figure.caption = fmt::format("{}, {} prompts, {} tokens in a bin.", source,
                               figures::format_count(static_cast<long long>(lengths.lengths.size())),
                               figures::format_count(lengths.bins.front().end - lengths.bins.front().first));
  return figure;
}

}  // namespace keyscope::validation
