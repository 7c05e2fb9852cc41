#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/slack_histogram.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/spread.hpp"
#include "app/measures/head_bounds.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::figures {
namespace {

using analysis::SlackHistogram;
using measures::HeadBounds;
using recording::RecordingInfo;

constexpr std::int64_t kMostPairs = 4'000'000'000;  // of all heads together: minutes on a few cores
constexpr int kBins = 60;
constexpr double kShownShare = 0.999;  // of the pairs, in a histogram: what is beyond would make it a spike
constexpr double kBoundOffset = 0.16;  // from a layer's number to a bound's mark

// One inequality of a result.
struct Bound {
  const char* id;
  const char* label;
  Colour colour;
  Marker marker;
  bool dashed;
  const SlackHistogram& (*slack)(const HeadBounds&);
};

const std::array kTheoremBounds{
    Bound{"theorem_paper", "Theorem 3.2", kBlue, Marker::kDisc, false,
          [](const HeadBounds& head) -> const SlackHistogram& { return head.theorem.slack; }},
    Bound{"theorem_exact", "exact spherical bound", kOrange, Marker::kSquare, true,
          [](const HeadBounds& head) -> const SlackHistogram& { return head.theorem.slack_exact; }}};
const std::array kLemmaBounds{
    Bound{"lemma_stated", "Lemma 3.1 where its proof holds", kVermillion, Marker::kDisc, false,
          [](const HeadBounds& head) -> const SlackHistogram& { return head.lemma.stated.slack; }},
    Bound{"lemma_always", "the form that always holds", kGreen, Marker::kSquare, true,
          [](const HeadBounds& head) -> const SlackHistogram& { return head.lemma.always.slack; }}};

// A slack as float32 holds it: what is larger stands at its end.
double drawn(double slack) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return std::clamp(slack, -kMost, kMost);
}

SlackHistogram all_slacks(const std::vector<HeadBounds>& heads, const Bound& bound) {
  SlackHistogram all;
  for (const HeadBounds& head : heads) all.add(bound.slack(head));
  return all;
}

LineSeries zero_line(std::vector<float> x, std::vector<float> y) {
  LineSeries line;
  line.id = "zero";
  line.colour = kGrey;
  line.dashed = true;
  line.x = std::move(x);
  line.y = std::move(y);
  return line;
}

Panel layer_panel(const RecordingInfo& info, const std::vector<HeadBounds>& heads,
                  std::span<const Bound> bounds, const char* id, const char* title) {
  Panel panel;
  panel.id = id;
  panel.title = title;
  panel.x = {"layer", "", {}, true};
  panel.y.label = "slack (0: at the bound)";
  panel.note = "median, 5 to 95 %, and the least (open)";
  panel.lines.push_back(zero_line(
      {static_cast<float>(info.layers.front()) - 0.5F, static_cast<float>(info.layers.back()) + 0.5F},
      {0, 0}));
  double offset = -kBoundOffset;
  for (const Bound& bound : bounds) {
    SpreadSeries spread(bound.id, bound.label, bound.colour, bound.marker, 4.5F);
    PointSeries least;
    least.id = std::string(bound.id) + "_least";
    least.colour = bound.colour;
    least.marker = Marker::kOpenDownTriangle;
    least.size_px = 4.5F;
    std::map<int, SlackHistogram> layers;
    for (const HeadBounds& head : heads) layers[head.layer].add(bound.slack(head));
    for (const auto& [layer, slack] : layers) {
      if (slack.count() == 0) continue;
      spread.add(layer + offset, drawn(slack.quantile(0.05)), drawn(slack.quantile(0.5)),
                 drawn(slack.quantile(0.95)));
      least.x.push_back(static_cast<float>(layer + offset));
      least.y.push_back(static_cast<float>(drawn(slack.quantile(0))));
    }
    std::move(spread).put_into(panel);
    panel.points.push_back(std::move(least));
    offset += 2 * kBoundOffset;
  }
  return panel;
}

// The outline of a histogram's bars: share of the pairs by slack.
LineSeries outline_of(const SlackHistogram& slack, const Bound& bound, double low, double high) {
  LineSeries line;
  line.id = std::string(bound.id) + "_share";
  line.label = bound.label;
  line.colour = bound.colour;
  line.dashed = bound.dashed;
  const double width = (high - low) / kBins;
  for (int bin = 0; bin < kBins && slack.count() > 0; ++bin) {
    const double from = low + bin * width;
    const double share = (slack.count_below(from + width) - slack.count_below(from)) / double(slack.count());
    for (const double edge : {from, from + width}) {
      line.x.push_back(static_cast<float>(edge));
      line.y.push_back(static_cast<float>(100 * share));
    }
  }
  return line;
}

Panel histogram_panel(const std::vector<HeadBounds>& heads, std::span<const Bound> bounds, const char* id) {
  Panel panel;
  panel.id = id;
  panel.title = "all layers";
  panel.x.label = "slack";
  panel.y = {"share of pairs in a bin", "%"};
  panel.legend = false;  // that of the layers serves
  double low = 0, high = 0;
  std::vector<SlackHistogram> slacks;
  for (const Bound& bound : bounds) {
    slacks.push_back(all_slacks(heads, bound));
    if (slacks.back().count() == 0) continue;
    low = std::min(low, drawn(slacks.back().quantile(0)));
    high = std::max(high, drawn(slacks.back().quantile(kShownShare)));
  }
  for (std::size_t i = 0; i < bounds.size(); ++i)
    panel.lines.push_back(outline_of(slacks[i], bounds[i], low, high));
  return panel;
}

std::string count_violations(std::int64_t n) {
  return fmt::format("{} violation{}", format_count(n), n == 1 ? "" : "s");
}

struct Totals {
  std::int64_t pairs = 0, looked_at = 0, violations = 0;

  std::string text(const char* what) const {
    const double share = looked_at > 0 ? 100.0 * double(pairs) / double(looked_at) : 0;
    return fmt::format("{} of {} {} ({:.1f} %), {}", format_count(pairs), format_count(looked_at), what,
                       share, count_violations(violations));
  }
};

std::string caption_of(const RecordingInfo& info, int run, const std::vector<HeadBounds>& heads) {
  Totals theorem, lemma, always;
  std::int64_t sampled = 0;
  const auto& about = info.runs[run];
  const std::int64_t n = std::min(info.n_prompt(), about.n_tokens);
  for (const HeadBounds& head : heads) {
    sampled += head.theorem.sampled + head.lemma.sampled;
    theorem.pairs += head.theorem.pairs;
    theorem.looked_at +=
        head.theorem.sampled > 0 ? head.theorem.sampled : n * n * info.model.group_size(head.layer);
    theorem.violations += head.theorem.violations;
    lemma.pairs += head.lemma.pairs_nonnegative;
    lemma.looked_at += head.lemma.pairs;
    lemma.violations += head.lemma.stated.violations;
    always.violations += head.lemma.always.violations;
  }
  return fmt::format(
      "{}, {} heads of {} layers. Theorem 3.2, where α < 0 < β: {}. Lemma 3.1 as stated, where its proof "
      "holds, cos(key, query) ≥ 0: {}; the form that always holds, over all of these: {}. {}Histograms end "
      "at "
      "{} % of the pairs.",
      describe_run(info, about), heads.size(), info.layers.size(), theorem.text("pairs"),
      lemma.text("visible pairs"), count_violations(always.violations),
      sampled > 0 ? "Queries are a seeded sample. " : "", 100 * kShownShare);
}

}  // namespace

Figure bounds_figure(const recording::Recording& recording, const FigureRequest& request) {
  const auto info = recording.info();
  const int run = only_run(*info, request);
  require_run(*info, run);
  require_keys(*info);
  if (!info->queries)
    throw FileError(
        fmt::format("{}: queries were not recorded, and the bounds are about pairs of a key and a query; "
                    "capture with --record keys,queries",
                    info->source));
  const std::size_t n_heads = info->recorded_heads().size();
  analysis::BoundOptions options;
  options.max_pairs = std::min(options.max_pairs, kMostPairs / static_cast<std::int64_t>(n_heads));
  const auto heads = measures::measure_all_bounds(recording, run, options);
  Figure figure;
  figure.name = "bounds";
  figure.title = "How far pairs of key and query keep from the paper's bounds";
  figure.columns = 2;
  figure.panels.push_back(layer_panel(*info, heads, kTheoremBounds, "theorem_layers", "Theorem 3.2"));
  figure.panels.push_back(histogram_panel(heads, kTheoremBounds, "theorem_histogram"));
  figure.panels.push_back(layer_panel(*info, heads, kLemmaBounds, "lemma_layers", "Lemma 3.1"));
  figure.panels.push_back(histogram_panel(heads, kLemmaBounds, "lemma_histogram"));
  figure.view.runs = {info->runs[run].plan.name};
  figure.caption = caption_of(*info, run, heads);
  return figure;
}

}  // namespace keyscope::figures
