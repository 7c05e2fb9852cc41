#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/statistics.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/labels.hpp"
#include "app/figures/spread.hpp"
#include "app/measures/head_data.hpp"
#include "app/measures/head_measures.hpp"
#include "app/measures/measured_heads.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

namespace {

using measures::HeadMeasures, measures::HeadValue, measures::MeasuredHeads, measures::Part;
using recording::RecordingInfo;

std::vector<int> runs_to_compare(const RecordingInfo& info, const FigureRequest& request) {
  std::vector<int> runs = chosen_evicting_runs(info, request);
  if (measures::full_cache_run(info) < 0 || runs.empty())
    throw NothingToDraw(
        fmt::format("{}: what evicting costs needs a finished run `none` and one that evicts", info.source));
  return runs;
}

// The parts of a label, between commas, that another one lacks; the label itself where that leaves nothing.
std::string beyond(const std::string& label, const std::string& other) {
  std::string rest;
  for (std::size_t at = 0; at < label.size();) {
    const std::size_t end = std::min(label.find(", ", at), label.size());
    const std::string part = label.substr(at, end - at);
    if ((", " + other + ", ").find(", " + part + ", ") == std::string::npos)
      rest += (rest.empty() ? "" : ", ") + part;
    at = end + 2;
  }
  return rest.empty() ? label : rest;
}

// Where all runs have one policy and options tell them apart: the first run's options, and of the others what
// differs from it. Elsewhere names as an axis has them.
RunNames names_of(const RecordingInfo& info, const std::vector<int>& runs) {
  const std::string prefix = info.runs[runs.front()].plan.policy + ", ";
  std::vector<std::string> labels;
  labels.reserve(runs.size());
  for (const int run : runs) labels.push_back(run_label(info, run));
  const bool one_policy =
      std::ranges::all_of(labels, [&](const std::string& label) { return label.starts_with(prefix); });
  if (!one_policy) return name_runs(info, runs);
  for (std::string& label : labels) label.erase(0, prefix.size());
  for (std::size_t i = labels.size(); i-- > 1;) labels[i] = beyond(labels[i], labels.front());
  return {labels, ""};
}

Panel empty_panel(const char* id, const char* title, Axis y, const std::vector<std::string>& labels) {
  Panel panel;
  panel.id = id;
  panel.title = title;
  panel.x.categories = labels;
  panel.y = std::move(y);
  panel.legend = false;
  return panel;
}

void add_head_panel(Figure& figure, Panel panel, const MeasuredHeads& heads,
                    std::span<const measures::Moment> moments, HeadValue value) {
  SpreadSeries spread("median", "median, 5 to 95 % of heads", kBlue, Marker::kDisc, 6);
  bool any = false;
  double place = 0;
  for (const auto& run : heads.with(measures::part_of(value), moments)) {
    std::vector<double> values;
    for (const HeadMeasures& head : run)
      if (const auto& found = head.*value) values.push_back(*found);
    any = any || !values.empty();
    spread.add(place++, values);
  }
  if (!any) return;
  std::move(spread).put_into(panel);
  figure.panels.push_back(std::move(panel));
}

void add_kl_panel(Figure& figure, Panel panel, const recording::Recording& recording,
                  const std::vector<int>& runs) {
  PointSeries means;
  means.id = "kl";
  means.colour = kBlue;
  means.marker = Marker::kDiamond;
  means.size_px = 7;
  for (std::size_t r = 0; r < runs.size(); ++r)
    if (const auto kl = measures::measure_run(recording, runs[r]).kl_nats) {
      means.x.push_back(static_cast<float>(r));
      means.y.push_back(static_cast<float>(*kl));
    }
  if (means.x.empty()) return;
  panel.points.push_back(std::move(means));
  figure.panels.push_back(std::move(panel));
}

}  // namespace

Figure ablation_figure(const MeasuredHeads& heads, const FigureRequest& request) {
  const auto info = heads.recording().info();
  const std::int64_t block = request.block.value_or(-1);
  const std::vector<int> runs = runs_to_compare(*info, request);
  const auto [labels, key] = names_of(*info, runs);
  Figure figure;
  std::vector<measures::Moment> moments;
  for (const int run : runs) {
    moments.push_back({run, resolve_block(info->runs[run], block)});
    figure.view.runs.push_back(info->runs[run].plan.name);
  }
  heads.expect({Part::kMass, Part::kOutput}, moments);
  add_head_panel(figure,
                 empty_panel("attention_mass", "attention kept", {"share of the full cache's", ""}, labels),
                 heads, moments, &HeadMeasures::attention_mass_kept);
  add_head_panel(figure, empty_panel("output_error", "output error", {"relative error", ""}, labels), heads,
                 moments, &HeadMeasures::output_error);
  add_kl_panel(figure, empty_panel("kl_divergence", "KL divergence", {"from the full cache", "nats"}, labels),
               heads.recording(), runs);
  figure.name = "ablation";
  figure.title = "What evicting costs";
  figure.columns = 3;
  figure.view.block = block;
  const auto& first = info->runs[runs.front()].plan;
  const bool one_policy = key.empty() && labels.front() != run_label(*info, runs.front());
  figure.caption =
      fmt::format("{}{}{}. Heads: median, 5 to 95 % of {} layers × {}.{}", describe_prompt(*info),
                  one_policy ? ", " + first.policy : "", describe_budget(*info, runs), info->layers.size(),
                  describe_kv_heads(*info), key);
  return figure;
}

namespace {

using recording::RunInfo;

constexpr double kCloudWidth = 0.5;  // of the distance between two runs
constexpr double kBarPlace = -0.33;  // left of the cloud

// Heads lie side by side in the order of their layers, so that a trend over depth shows.
void add_cloud(PointSeries& cloud, double place, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double share = values.size() > 1 ? double(i) / double(values.size() - 1) - 0.5 : 0;
    cloud.x.push_back(static_cast<float>(place + 0.08 + kCloudWidth * share));
    cloud.y.push_back(static_cast<float>(values[i]));
  }
}

// A measure of a retained set by which policies are compared.
struct ComparedMeasure {
  std::string_view figure;  // the figure's name
  const char* title;
  Axis axis;
  HeadValue value;
  bool grows_with_size =
      false;  // a sum over the set: only sets of one size can be compared, so no full cache
};

const ComparedMeasure& compared_measure(std::string_view figure) {
  static const std::array<ComparedMeasure, 5> kMeasures{{
      {"log-volume",
       "Log volume of the retained keys",
       {"log volume", "nats"},
       &HeadMeasures::log_volume_nats},
      {"redundancy",
       "Redundancy of the retained keys",
       {"mean pairwise cosine", ""},
       &HeadMeasures::mean_pairwise_cosine},
      {"cosine-objective",
       "Eq. A.2's objective: the sum of all cosines",
       {"sum of pairwise cosines", ""},
       &HeadMeasures::cosine_objective,
       true},
      {"attention-mass",
       "Attention that falls on the retained rows",
       {"share of the full cache's attention", ""},
       &HeadMeasures::attention_mass_kept},
      {"output-error",
       "What attention loses",
       {"relative error of attention's output", ""},
       &HeadMeasures::output_error},
  }};
  return *std::ranges::find(kMeasures, figure, &ComparedMeasure::figure);
}

}  // namespace

Figure policy_spread_figure(const MeasuredHeads& heads, const FigureRequest& request) {
  const auto info = heads.recording().info();
  const ComparedMeasure& measure = compared_measure(request.name);
  const std::int64_t block = request.block.value_or(-1);
  SpreadSeries spread("median", "median, 5 to 95 %", kBlack, Marker::kDiamond, 6);
  PointSeries cloud;
  cloud.id = "heads";
  cloud.label = "a KV head of a layer, layers from left to right";
  cloud.colour = kBlue;
  cloud.size_px = info->all_heads().size() > 64 ? 3 : 5;
  const bool without_full_cache = measure.grows_with_size && !chosen_evicting_runs(*info, request).empty();
  Panel panel;
  Figure figure;
  std::vector<int> shown;
  std::vector<measures::Moment> moments;
  for (const int run : chosen_runs(*info, request)) {
    const RunInfo& about = info->runs[run];
    if (without_full_cache && about.plan.policy == "none") continue;
    shown.push_back(run);
    figure.view.runs.push_back(about.plan.name);
    moments.push_back({run, resolve_block(about, block)});
  }
  const auto measured = heads.with(measures::part_of(measure.value), moments);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    std::vector<double> values;
    for (const HeadMeasures& head : measured[i])
      if (const auto& value = head.*measure.value) values.push_back(*value);
    add_cloud(cloud, static_cast<double>(i), values);
    spread.add(static_cast<double>(i) + kBarPlace, values);
  }
  if (cloud.x.empty())
    throw NothingToDraw(fmt::format(
        "{}: {} is not known for any head: it needs keys, two of them retained, and what compares with "
        "the full cache needs a run `none` (with --record keys,queries,values for the output)",
        info->source, measure.figure));
  RunNames named = name_runs(*info, shown);
  panel.x.categories = std::move(named.names);
  panel.id = std::string(measure.figure);
  panel.y = measure.axis;
  panel.points.push_back(std::move(cloud));
  std::move(spread).put_into(panel);
  figure.name = std::string(measure.figure);
  figure.title = measure.title;
  figure.view.block = block;
  figure.caption = fmt::format("{}, {} layers × {}{}", describe_prompt(*info), info->layers.size(),
                               describe_kv_heads(*info), describe_budget(*info, shown));
  if (without_full_cache)
    figure.caption += ". Sums grow with the number of keys: the full cache's is left out";
  if (!named.key.empty()) figure.caption += "." + named.key;
  figure.panels.push_back(std::move(panel));
  return figure;
}

namespace {

constexpr std::int64_t kMostMarkers = 16;  // more markers than that would hide their line
constexpr std::size_t kMostBands = 3;      // more than that could not be told apart

struct Course {
  const char* id;
  const char* title;
  Axis axis;
  HeadValue value;
};

const std::array<Course, 3>& courses() {
  static const std::array<Course, 3> kCourses{
      {{"log_volume", "log volume", {"log volume", "nats"}, &HeadMeasures::log_volume_nats},
       {"redundancy", "redundancy", {"mean pairwise cosine", ""}, &HeadMeasures::mean_pairwise_cosine},
       {"attention_mass",
        "attention kept",
        {"share of the full cache's attention", ""},
        &HeadMeasures::attention_mass_kept}}};
  return kCourses;
}

// Prompt blocks to look after, evenly spaced and the last among them.
std::vector<std::int64_t> marked_blocks(const RunInfo& run) {
  const std::int64_t n_blocks = resolve_block(run, -1) + 1;
  const std::int64_t n = std::min(n_blocks, kMostMarkers);
  std::vector<std::int64_t> blocks;
  for (std::int64_t i = 1; i <= n; ++i) blocks.push_back(i * n_blocks / n - 1);
  return blocks;
}

struct RunCourse {
  LineSeries median;
  BandSeries band;
};

//   heads: after each of the marked blocks
RunCourse course_of(const RecordingInfo& info, int run, std::span<const std::span<const HeadMeasures>> heads,
                    const Course& course, PolicyLooks::Look look) {
  const RunInfo& about = info.runs[run];
  const std::vector<std::int64_t> blocks = marked_blocks(about);
  RunCourse drawn;
  drawn.median.id = about.plan.name;
  drawn.median.label = run_label(info, run);
  drawn.median.colour = drawn.band.colour = look.colour;
  drawn.band.id = about.plan.name + "_5_95";
  drawn.band.label = drawn.median.label + ", 5 to 95 % of heads";
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::vector<double> values;
    for (const HeadMeasures& head : heads[i])
      if (const auto& value = head.*course.value) values.push_back(*value);
    if (values.empty()) continue;
    const analysis::Percentiles spread = analysis::percentiles_of(values);
    const auto x = static_cast<float>(tokens_seen_by(about, blocks[i]));
    drawn.median.x.push_back(x);
    drawn.median.y.push_back(static_cast<float>(spread.median));
    drawn.band.x.push_back(x);
    drawn.band.low.push_back(static_cast<float>(spread.p05));
    drawn.band.high.push_back(static_cast<float>(spread.p95));
  }
  drawn.median.marker = look.marker;
  return drawn;
}

std::vector<Panel> empty_panels(bool full_cache) {
  std::vector<Panel> panels;
  for (const Course& course : courses()) {
    if (course.value == &HeadMeasures::attention_mass_kept && !full_cache) continue;
    Panel panel;
    panel.id = course.id;
    panel.title = course.title;
    panel.x = {"prompt tokens read", "", {}, true};
    panel.y = course.axis;
    panels.push_back(std::move(panel));
  }
  return panels;
}

std::string note_of(const RecordingInfo& info, const std::vector<int>& runs) {
  std::int64_t most = 0;
  for (const int run : runs) most = std::max(most, resolve_block(info.runs[run], -1) + 1);
  return most > kMostMarkers ? fmt::format(", {} of {} blocks", kMostMarkers, format_count(most)) : "";
}

}  // namespace

Figure diversity_figure(const MeasuredHeads& heads, const FigureRequest& request) {
  const auto info = heads.recording().info();
  const std::vector<int> runs = chosen_runs(*info, request);
  require_keys(*info);
  Figure figure;
  figure.panels = empty_panels(measures::full_cache_run(*info) >= 0);
  PolicyLooks looks;
  for (const int run : runs) {
    const RunInfo& about = info->runs[run];
    const auto look = looks.next(about.plan.policy);
    std::vector<measures::Moment> moments;
    for (const std::int64_t block : marked_blocks(about)) moments.push_back({run, block});
    heads.expect({Part::kVolume, Part::kPairs, Part::kMass}, moments);
    for (std::size_t p = 0; p < figure.panels.size(); ++p) {
      const Course& course = courses().at(p);
      RunCourse drawn =
          course_of(*info, run, heads.with(measures::part_of(course.value), moments), course, look);
      figure.panels[p].lines.push_back(std::move(drawn.median));
      if (runs.size() <= kMostBands) figure.panels[p].bands.push_back(std::move(drawn.band));
    }
    figure.view.runs.push_back(about.plan.name);
  }
  figure.name = "diversity";
  figure.title = "Diversity of the retained keys while the prompt is read";
  figure.columns = 3;
  figure.caption =
      fmt::format("{}{}. Median over {} heads of {} layers after each block{}{}.", describe_prompt(*info),
                  describe_budget(*info, runs), info->recorded_heads().size(), info->layers.size(),
                  note_of(*info, runs), runs.size() <= kMostBands ? "; bands: 5 to 95 %" : "");
  return figure;
}

}  // namespace keyscope::figures
