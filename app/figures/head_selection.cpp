#include "app/figures/head_selection.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "app/figures/axis_ticks.hpp"

namespace keyscope::figures {
namespace {

using recording::RecordingInfo;
using recording::RunInfo;

std::vector<std::string> run_names(const RecordingInfo& info) {
  std::vector<std::string> names;
  names.reserve(info.runs.size());
  for (const RunInfo& run : info.runs) names.push_back(run.plan.name);
  return names;
}

[[noreturn]] void refuse_head(std::string_view kind, int head, int n_heads) {
  throw UsageError(n_heads == 1
                       ? fmt::format("{} {} is not there: the model has only {} 0", kind, head, kind)
                       : fmt::format("{} {} is not there: the model's are 0 to {}", kind, head, n_heads - 1));
}

}  // namespace

void require_run(const RecordingInfo& info, int run) {
  if (run >= 0 && run < static_cast<int>(info.runs.size())) return;
  throw UsageError(
      fmt::format("run number {} is not there: {} holds {} runs", run, info.source, info.runs.size()));
}

int find_run(const RecordingInfo& info, std::string_view name) {
  if (const int run = info.run_index(name); run >= 0) return run;
  throw UsageError(fmt::format("there is no run '{}' in {}; its runs are: {}", name, info.source,
                               fmt::join(run_names(info), ", ")));
}

std::vector<std::string> without_repeats(const std::vector<std::string>& runs) {
  std::vector<std::string> distinct;
  for (const std::string& run : runs)
    if (std::ranges::find(distinct, run) == distinct.end()) distinct.push_back(run);
  return distinct;
}

void require_layer(const RecordingInfo& info, int layer) {
  if (std::ranges::find(info.layers, layer) != info.layers.end()) return;
  throw UsageError(fmt::format("layer {} was not recorded in {}; recorded layers: {}", layer, info.source,
                               fmt::join(info.layers, ", ")));
}

void require_kv_head(const RecordingInfo& info, int kv_head) {
  if (kv_head < 0 || kv_head >= info.model.n_kv_heads) refuse_head("KV head", kv_head, info.model.n_kv_heads);
  if (!info.heads.has(kv_head))
    throw UsageError(fmt::format("{}: {}", info.source, info.heads.refusal(kv_head)));
}

void require_query_head(const RecordingInfo& info, int query_head) {
  if (query_head < 0 || query_head >= info.model.n_heads)
    refuse_head("query head", query_head, info.model.n_heads);
  require_kv_head(info, query_head / info.model.group_size());
}

void require_keys(const RecordingInfo& info) {
  if (!info.keys)
    throw FileError(
        fmt::format("{}: keys were not recorded, and this figure is made of them; "
                    "capture with --record keys,queries",
                    info.source));
}

std::int64_t resolve_block(const RunInfo& run, std::int64_t block) {
  if (block < 0) return std::min(run.plan.n_prompt_blocks, run.blocks_done) - 1;
  if (block < run.blocks_done) return block;
  throw UsageError(fmt::format(
      "block {} is not there: run '{}' has {}", block, run.plan.name,
      run.blocks_done == 0 ? "no complete block" : fmt::format("blocks 0 to {}", run.blocks_done - 1)));
}

std::int64_t tokens_seen_by(const RunInfo& run, std::int64_t block) {
  return block < 0 ? 0 : recording::tokens_seen(run, block);
}

int reference_run(const RecordingInfo& info) {
  for (std::size_t run = 0; run < info.runs.size(); ++run)
    if (info.runs[run].plan.policy == "none" && info.runs[run].blocks_done > 0) return static_cast<int>(run);
  return info.runs.empty() ? -1 : 0;
}

std::string describe_prompt(const RecordingInfo& info) {
  return fmt::format("{}{}prompt of {} token{}", info.model.name, info.model.name.empty() ? "" : ", ",
                     format_count(info.n_prompt()), info.n_prompt() == 1 ? "" : "s");
}

std::string describe_run(const RecordingInfo& info, const RunInfo& run) {
  const std::string budget = run.plan.policy == "none"
                                 ? std::string("full cache")
                                 : fmt::format("{}, N = {}", run.plan.name, format_count(run.plan.budget));
  const std::string_view oracle = run.plan.replayed ? " by an oracle" : ", by an oracle";
  return fmt::format("{}, {}, B = {}{}{}", describe_prompt(info), budget, format_count(run.plan.block_size),
                     run.plan.replayed ? ", replayed on full-cache keys" : "", run.plan.oracle ? oracle : "");
}

}  // namespace keyscope::figures
