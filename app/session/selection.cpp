#include "app/session/selection.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/figures/head_selection.hpp"
#include "app/session/shell_words.hpp"

namespace keyscope::session {
namespace {

using recording::RecordingInfo;
using recording::RunInfo;

// What evicts is what there is to see; but not a run that has no block, of a capture that was cut short.
int first_evicting_run(const RecordingInfo& info) {
  int chosen = 0;
  for (std::size_t run = info.runs.size(); run-- > 0;) {
    const RunInfo& candidate = info.runs[run];
    const bool best = info.runs[chosen].plan.policy != "none" && info.runs[chosen].blocks_done > 0;
    if (candidate.blocks_done == 0) continue;
    if (candidate.plan.policy != "none" || !best) chosen = static_cast<int>(run);
  }
  return chosen;
}

}  // namespace

std::int64_t end_of_prompt(const RunInfo& run) { return figures::resolve_block(run, -1); }

Selection resolve_selection(const RecordingInfo& info, const SelectionRequest& request) {
  if (info.runs.empty() || info.layers.empty())
    throw UsageError(fmt::format("{}: there is nothing to show: it holds {} runs and {} layers", info.source,
                                 info.runs.size(), info.layers.size()));
  Selection selection;
  selection.run = request.run ? figures::find_run(info, *request.run) : first_evicting_run(info);
  selection.layer = request.layer.value_or(info.layers.front());
  selection.kv_head = request.kv_head.value_or(info.heads.first());
  figures::require_layer(info, selection.layer);
  figures::require_kv_head(info, selection.kv_head);
  selection.block = figures::resolve_block(info.runs[selection.run], request.block.value_or(-1));
  return selection;
}

Selection clamp_selection(const RecordingInfo& info, Selection selection) {
  if (info.runs.empty() || info.layers.empty()) return {};
  selection.run = std::clamp(selection.run, 0, static_cast<int>(info.runs.size()) - 1);
  const auto nearest =
      std::ranges::min_element(info.layers, {}, [&](int layer) { return std::abs(layer - selection.layer); });
  selection.layer = *nearest;
  const std::vector<int> heads = info.heads.list(info.model.n_kv_heads);
  selection.kv_head =
      *std::ranges::min_element(heads, {}, [&](int head) { return std::abs(head - selection.kv_head); });
  selection.block = std::min(selection.block, info.runs[selection.run].blocks_done - 1);
  return selection;
}

std::string selection_options(const RecordingInfo& info, const Selection& selection) {
  std::string options =
      fmt::format("--run {} --layer {} --kv-head {}", quote_word(info.runs[selection.run].plan.name),
                  selection.layer, selection.kv_head);
  if (selection.block >= 0) options += fmt::format(" --block {}", selection.block);
  return options;
}

}  // namespace keyscope::session
