#include "app/figures/block_times.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/figures/head_selection.hpp"
#include "app/figures/policy_look.hpp"

namespace keyscope::figures {
namespace {

using recording::RecordingInfo;
using recording::RunInfo;

constexpr std::size_t kMostMarked = 64;  // more points than that and their markers would hide the line

std::size_t n_prompt_blocks(const RunInfo& run) {
  return static_cast<std::size_t>(std::min<std::int64_t>(run.plan.n_prompt_blocks, run.blocks_done));
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
  for (const int run : runs) sizes.insert(info.runs[static_cast<std::size_t>(run)].plan.block_size);
  return sizes.size() == 1 ? fmt::format(", B = {}", *sizes.begin()) : "";
}

}  // namespace

bool has_block_times(const RecordingInfo& info) { return std::ranges::any_of(info.runs, is_timed); }

Figure block_times_figure(const recording::Recording& recording, const BlockTimesSelection& selection) {
  const auto info = recording.info();
  Panel panel;
  panel.id = "block_times";
  panel.x = {"position of the block's first token", ""};
  panel.y = {"time per block", "ms"};
  Figure figure;
  PolicyLooks looks;
  for (const int index : selection.runs) {
    require_run(*info, index);
    const RunInfo& run = info->runs[static_cast<std::size_t>(index)];
    const auto look = looks.next(run.plan.policy);
    figure.view.runs.push_back(run.plan.name);
    if (is_timed(run)) panel.lines.push_back(line_of(run, look));
  }
  if (panel.lines.empty())
    throw FileError(
        fmt::format("{}: blocks have no times: they went through one layer after another; capture "
                    "with --schedule block",
                    info->source));
  figure.name = "block-times";
  figure.title = "Time per block";
  figure.caption = fmt::format("{}{}, on {}", describe_prompt(*info), block_sizes(*info, selection.runs),
                               info->provenance.device);
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::figures
