#include "app/figures/diversity.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "analysis/quantiles.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/head_selection.hpp"
#include "app/figures/policy_look.hpp"
#include "app/figures/labels.hpp"
#include "app/measures/head_data.hpp"
#include "app/measures/recording_measures.hpp"

namespace keyscope::figures {
namespace {

using measures::HeadMeasures;
using recording::RecordingInfo;
using recording::RunInfo;

constexpr std::int64_t kMostMoments = 16;  // more markers than that would hide their line
constexpr std::size_t kMostBands = 3;      // more than that could not be told apart

struct Course {
  const char* id;
  const char* title;
  Axis axis;
  std::optional<double> HeadMeasures::*value;
};

std::array<Course, 3> courses() {
  return {{{"log_volume", "log volume", {"log volume", "nats"}, &HeadMeasures::log_volume_nats},
           {"redundancy", "redundancy", {"mean pairwise cosine", ""}, &HeadMeasures::mean_pairwise_cosine},
           {"attention_mass",
            "attention kept",
            {"share of the full cache's attention", ""},
            &HeadMeasures::attention_mass_kept}}};
}

// Prompt blocks to look after, evenly spaced and the last among them.
std::vector<std::int64_t> moments_of(const RunInfo& run) {
  const std::int64_t n_blocks = resolve_block(run, -1) + 1;
  const std::int64_t n = std::min(n_blocks, kMostMoments);
  std::vector<std::int64_t> blocks;
  for (std::int64_t i = 1; i <= n; ++i) blocks.push_back(i * n_blocks / n - 1);
  return blocks;
}

struct RunCourse {
  LineSeries median;
  BandSeries band;
};

RunCourse course_of(const RecordingInfo& info, int run, const std::vector<std::vector<HeadMeasures>>& heads,
                    const Course& course, PolicyLooks::Look look) {
  const RunInfo& about = info.runs[static_cast<std::size_t>(run)];
  const std::vector<std::int64_t> blocks = moments_of(about);
  RunCourse drawn;
  drawn.median.id = about.plan.name;
  drawn.median.label = run_label(info, run);
  drawn.median.colour = drawn.band.colour = look.colour;
  drawn.band.id = about.plan.name + "_5_95";
  drawn.band.label = drawn.median.label + ", 5 to 95 % of heads";
  for (std::size_t moment = 0; moment < blocks.size(); ++moment) {
    std::vector<double> values;
    for (const HeadMeasures& head : heads[moment])
      if (const auto& value = head.*course.value) values.push_back(*value);
    if (values.empty()) continue;
    const auto spread = analysis::quantiles(values, std::array{0.05, 0.5, 0.95});
    const auto x = static_cast<float>(tokens_seen_by(about, blocks[moment]));
    drawn.median.x.push_back(x);
    drawn.median.y.push_back(static_cast<float>(spread[1]));
    drawn.band.x.push_back(x);
    drawn.band.low.push_back(static_cast<float>(spread[0]));
    drawn.band.high.push_back(static_cast<float>(spread[2]));
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
  for (const int run : runs)
    most = std::max(most, resolve_block(info.runs[static_cast<std::size_t>(run)], -1) + 1);
  return most > kMostMoments ? fmt::format(", {} of {} blocks", kMostMoments, format_count(most)) : "";
}

}  // namespace

Figure diversity_figure(const recording::Recording& recording, const DiversitySelection& selection) {
  const auto info = recording.info();
  require_keys(*info);
  Figure figure;
  figure.panels = empty_panels(measures::full_cache_run(*info) >= 0);
  PolicyLooks looks;
  for (const int run : selection.runs) {
    require_run(*info, run);
    const RunInfo& about = info->runs[static_cast<std::size_t>(run)];
    const auto look = looks.next(about.plan.policy);
    std::vector<std::vector<HeadMeasures>> heads;
    for (const std::int64_t block : moments_of(about))
      heads.push_back(measures::measure_heads(recording, run, block, true));
    for (std::size_t p = 0; p < figure.panels.size(); ++p) {
      RunCourse drawn = course_of(*info, run, heads, courses().at(p), look);
      figure.panels[p].lines.push_back(std::move(drawn.median));
      if (selection.runs.size() <= kMostBands) figure.panels[p].bands.push_back(std::move(drawn.band));
    }
    figure.view.runs.push_back(about.plan.name);
  }
  figure.name = "diversity";
  figure.title = "Diversity of the retained keys while the prompt is read";
  figure.columns = 3;
  figure.caption =
      fmt::format("{}{}. Median over {} layers × {} KV heads after each block{}{}.", describe_prompt(*info),
                  describe_budget(*info, selection.runs), info->layers.size(),
                  info->heads.list(info->model.n_kv_heads).size(), note_of(*info, selection.runs),
                  selection.runs.size() <= kMostBands ? "; bands: 5 to 95 %" : "");
  return figure;
}

}  // namespace keyscope::figures
