#include "app/session/run_choice.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace keyscope::session {
namespace {

using recording::RecordingInfo;
using recording::RunInfo;

bool same_model(const RecordingInfo& a, const RecordingInfo& b) {
  return a.provenance.model_sha256 == b.provenance.model_sha256 && a.model.n_layers == b.model.n_layers &&
         a.model.n_heads == b.model.n_heads && a.model.n_kv_heads == b.model.n_kv_heads &&
         a.model.head_dim == b.model.head_dim;
}

void add_runs(const RecordingInfo& info, int source, const std::string& refusal,
              std::vector<RunChoice>& choices) {
  for (std::size_t run = 0; run < info.runs.size(); ++run)
    choices.push_back({{source, static_cast<int>(run)},
                       info.runs[run].plan.name,
                       refusal.empty() && info.runs[run].blocks_done == 0 ? "no block yet" : refusal});
}

}  // namespace

std::string comparison_refusal(const RecordingInfo& info, const RecordingInfo& other, int layer,
                               int kv_head) {
  if (!same_model(info, other)) return "other model";
  if (info.prompt.id != other.prompt.id) return "other prompt";
  if (!other.keys) return "no keys";
  if (std::ranges::find(other.layers, layer) == other.layers.end()) return fmt::format("no layer {}", layer);
  return other.heads.has(kv_head) ? std::string() : fmt::format("no KV head {}", kv_head);
}

std::vector<RunChoice> run_choices(const RecordingInfo& info, const std::vector<RecordingInfoPtr>& earlier,
                                   int layer, int kv_head) {
  std::vector<RunChoice> choices;
  add_runs(info, 0, {}, choices);
  for (std::size_t i = 0; i < earlier.size(); ++i)
    add_runs(*earlier[i], static_cast<int>(i) + 1, comparison_refusal(info, *earlier[i], layer, kv_head),
             choices);
  return choices;
}

std::int64_t matching_block(const RunInfo& of, std::int64_t block, const RunInfo& run) {
  if (run.blocks_done == 0) return -1;
  if (block < 0) return -1;
  const std::int64_t n_seen = recording::tokens_seen(of, std::min(block, of.blocks_done - 1));
  // Blocks are in order, so that the first which has seen them all is found by halving.
  std::int64_t low = 0, high = run.blocks_done - 1;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (recording::tokens_seen(run, middle) >= n_seen)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

std::vector<RunId> after_selecting(std::vector<RunId> beside, int before, int selected) {
  for (RunId& id : beside)
    if (id == RunId{0, selected}) id = {0, before};
  std::ranges::sort(beside);
  return beside;
}

}  // namespace keyscope::session
