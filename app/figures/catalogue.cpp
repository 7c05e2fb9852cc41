#include "app/figures/catalogue.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/measures/head_data.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

namespace {

using measures::MeasuredHeads;
using recording::Recording;
using recording::RecordingInfo;

constexpr std::array kAliases{
    FigureAlias{"fig2", "cosine-and-attention"},
    FigureAlias{"fig4", "keyspace"},
    FigureAlias{"fig5", "keyspace"},
    FigureAlias{"fig8", "keyspace"},
    FigureAlias{"fig9", "keyspace"},
    FigureAlias{"fig10", "keyspace"},
    FigureAlias{"fig11", "keyspace"},
    FigureAlias{"fig12", "log-volume"},
    FigureAlias{"fig13", "mean-cosines"},
    FigureAlias{"fig14", "mean-key-query-cosine"},
    FigureAlias{"fig15", "key-norms"},
    FigureAlias{"fig16", "top-key-query-cosine"},
    FigureAlias{"table3", "rank-correlation"},
    FigureAlias{"table15", "ablation"},
    FigureAlias{"table16", "ablation"},
};

// The paper's figures that are not made of a recording.
constexpr std::array kMadeElsewhere{
    FigureAlias{"fig6", "eval niah"},         FigureAlias{"fig7", "bench prefill"},
    FigureAlias{"fig17", "bench prefill"},    FigureAlias{"fig18", "prompts"},
    FigureAlias{"fig19", "eval niah"},        FigureAlias{"table1", "eval longbench"},
    FigureAlias{"table4", "eval math500"},    FigureAlias{"table5", "eval math500"},
    FigureAlias{"table6", "eval math500"},    FigureAlias{"table7", "eval math500"},
    FigureAlias{"table8", "prompts"},         FigureAlias{"table9", "prompts"},
    FigureAlias{"table10", "eval longbench"}, FigureAlias{"table11", "eval longbench"},
    FigureAlias{"table12", "eval longbench"}, FigureAlias{"table13", "eval longbench"},
    FigureAlias{"table14", "eval longbench"}, FigureAlias{"table17", "eval phonebook"},
    FigureAlias{"table18", "eval niah"},      FigureAlias{"table19", "bench score"},
};

const Builder& find_builder(std::string_view name) {
  const auto alias = std::ranges::find(kAliases, name, &FigureAlias::paper);
  if (alias != kAliases.end()) name = alias->name;
  const auto found = std::ranges::find(builders(), name, &Builder::name);
  if (found != builders().end()) return *found;
  const auto elsewhere = std::ranges::find(kMadeElsewhere, name, &FigureAlias::paper);
  if (elsewhere != kMadeElsewhere.end())
    throw UsageError(
        fmt::format("figure '{}' is not made of a recording; `keyscope {}` makes it", name, elsewhere->name));
  throw UsageError(
      fmt::format("there is no figure '{}'; figures: {}", name, fmt::join(figure_names(), ", ")));
}

}  // namespace

const std::vector<std::string_view>& figure_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    all.reserve(builders().size());
    for (const Builder& builder : builders()) all.push_back(builder.name);
    return all;
  }();
  return names;
}

std::span<const FigureAlias> figure_aliases() { return kAliases; }

std::string_view figure_name(std::string_view name_or_alias) { return find_builder(name_or_alias).name; }

FigureScope scope_of(std::string_view name) { return find_builder(name).scope; }

bool shows_several_runs(std::string_view name) { return find_builder(name).several_runs; }

bool understands(std::string_view figure, FigureOption option) {
  return find_builder(figure).options.has(option);
}

bool is_recorded(const RecordingInfo& info, std::string_view name) {
  return find_builder(name).is_recorded(info);
}

void check_request(const RecordingInfo& info, const FigureRequest& request) {
  const Builder& builder = find_builder(request.name);
  if (request.grid) {
    check_small_multiples(info, builder, request);
  } else if (builder.scope != FigureScope::kRecording) {
    require_layer(info, chosen_layer(info, request));
    require_kv_head(info, chosen_layer(info, request), chosen_kv_head(info, request));
  }
  if (!builder.several_runs)
    check_block(info, only_run(info, request), request);
  else if (request.runs.empty())
    check_block(info, 0, request);
  for (const std::string& name : request.runs) check_block(info, find_run(info, name), request);
}

Figure build_figure(const MeasuredHeads& heads, const FigureRequest& request) {
  const Builder& builder = find_builder(request.name);
  FigureRequest named = request;
  named.name = builder.name;
  if (request.grid) return small_multiples_figure(heads.recording(), builder, named);
  return builder.build(heads, named);
}

namespace {

bool has_runs(const RecordingInfo& info) { return !info.runs.empty(); }
bool has_full_cache(const RecordingInfo& info) { return measures::full_cache_run(info) >= 0; }
bool has_keys_and_queries(const RecordingInfo& info) { return info.keys && info.queries; }
bool has_full_cache_values(const RecordingInfo& info) {
  return has_full_cache(info) && info.keys && info.queries && info.values;
}

bool evicts(const RecordingInfo& info) { return first_evicting_run(info) >= 0; }
bool has_evicted_keys(const RecordingInfo& info) { return info.keys && evicts(info); }
bool has_evictions_to_judge(const RecordingInfo& info) { return has_full_cache(info) && evicts(info); }
bool has_keys(const RecordingInfo& info) { return info.keys; }
bool has_attention(const RecordingInfo& info) { return info.attention || (info.keys && info.queries); }

constexpr auto kKvHead = FigureScope::kKvHead;
constexpr auto kQueryHead = FigureScope::kQueryHead;
constexpr auto kRecording = FigureScope::kRecording;

constexpr FigureOptions kKeyspaceOptions{
    FigureOption::kLayer,   FigureOption::kKvHead,     FigureOption::kQueryHead,  FigureOption::kLayers,
    FigureOption::kBlock,   FigureOption::kComponents, FigureOption::kProjection, FigureOption::kColour,
    FigureOption::kQueries, FigureOption::kReference,  FigureOption::kDensity};
constexpr FigureOptions kCosineOptions{FigureOption::kLayer,  FigureOption::kKvHead, FigureOption::kQueryHead,
                                       FigureOption::kLayers, FigureOption::kBlock,  FigureOption::kRetained,
                                       FigureOption::kOrder,  FigureOption::kReduce};
constexpr FigureOptions kAttentionOptions{
    FigureOption::kLayer, FigureOption::kKvHead, FigureOption::kQueryHead, FigureOption::kLayers,
    FigureOption::kBlock, FigureOption::kLinear, FigureOption::kReduce};
constexpr FigureOptions kBothOptions{FigureOption::kLayer, FigureOption::kKvHead,   FigureOption::kQueryHead,
                                     FigureOption::kBlock, FigureOption::kRetained, FigureOption::kLinear,
                                     FigureOption::kReduce};
constexpr FigureOptions kScoreOptions{FigureOption::kLayer, FigureOption::kKvHead, FigureOption::kQueryHead,
                                      FigureOption::kLayers, FigureOption::kRanks};
constexpr FigureOptions kLifeOptions{FigureOption::kLayer, FigureOption::kKvHead, FigureOption::kMargins};
constexpr FigureOptions kLaneOptions{FigureOption::kLayer, FigureOption::kKvHead, FigureOption::kOrder,
                                     FigureOption::kToken};
constexpr FigureOptions kMapOptions{FigureOption::kMeasure, FigureOption::kReference};
constexpr FigureOptions kBlockOption{FigureOption::kBlock};
constexpr FigureOptions kNoOptions{};

// A figure that shares no measures with others.
template <Figure (*kBuild)(const Recording&, const FigureRequest&)>
Figure of_recording(const MeasuredHeads& heads, const FigureRequest& request) {
  return kBuild(heads.recording(), request);
}

// A new figure is its builder and one line here.
constexpr std::array kBuilders{
    Builder{"keyspace", kKvHead, true, kKeyspaceOptions, has_keys, of_recording<keyspace_figure>},
    Builder{"cosine-matrix", kKvHead, false, kCosineOptions, has_keys, of_recording<cosine_matrix_figure>},
    Builder{"attention", kQueryHead, false, kAttentionOptions, has_attention, of_recording<attention_figure>},
    Builder{"cosine-and-attention", kQueryHead, false, kBothOptions, has_keys_and_queries,
            of_recording<cosine_and_attention_figure>},
    Builder{"score-attention", kKvHead, false, kScoreOptions, has_keys, of_recording<score_attention_figure>},
    Builder{"lifespans", kKvHead, false, kLifeOptions, has_runs, of_recording<lifespans_figure>},
    Builder{"token-lives", kKvHead, false, kLaneOptions, has_runs, of_recording<token_lives_figure>},
    Builder{"head-map", kRecording, false, kMapOptions, has_runs, head_map_figure},
    Builder{"rank-correlation", kRecording, false, kNoOptions, has_keys, rank_correlation_figure},
    Builder{"mean-cosines", kRecording, false, kNoOptions, has_keys, mean_cosines_figure},
    Builder{"mean-key-query-cosine", kRecording, false, kNoOptions, has_keys_and_queries,
            key_query_cosine_figure},
    Builder{"top-key-query-cosine", kRecording, false, kNoOptions, has_keys_and_queries,
            key_query_cosine_figure},
    Builder{"key-norms", kRecording, false, kNoOptions, has_keys, norms_figure},
    Builder{"log-volume", kRecording, true, kBlockOption, has_keys, policy_spread_figure},
    Builder{"redundancy", kRecording, true, kBlockOption, has_keys, policy_spread_figure},
    Builder{"cosine-objective", kRecording, true, kBlockOption, has_keys, policy_spread_figure},
    Builder{"attention-mass", kRecording, true, kBlockOption, has_full_cache, policy_spread_figure},
    Builder{"output-error", kRecording, true, kBlockOption, has_full_cache_values, policy_spread_figure},
    Builder{"diversity", kRecording, true, kNoOptions, has_keys, diversity_figure},
    Builder{"bounds", kRecording, false, kNoOptions, has_keys_and_queries, of_recording<bounds_figure>},
    Builder{"overlap", kRecording, true, kBlockOption, has_runs, of_recording<overlap_figure>},
    Builder{"relaxation-gap", kRecording, true, kBlockOption, has_evicted_keys,
            of_recording<relaxation_gap_figure>},
    Builder{"ablation", kRecording, true, kBlockOption, has_evictions_to_judge, ablation_figure},
    Builder{"block-times", kRecording, true, kNoOptions, has_block_times, of_recording<block_times_figure>},
};

}  // namespace

std::span<const Builder> builders() { return kBuilders; }

int only_run(const RecordingInfo& info, const FigureRequest& request) {
  const std::size_t n_runs = without_repeats(request.runs).size();
  if (n_runs > 1)
    throw UsageError(fmt::format("figure '{}' shows one run, but {} were given", request.name, n_runs));
  return request.runs.empty() ? reference_run(info) : find_run(info, request.runs.front());
}

int chosen_layer(const RecordingInfo& info, const FigureRequest& request) {
  return request.layer.value_or(info.layers.empty() ? 0 : info.layers.front());
}

int chosen_kv_head(const RecordingInfo& info, const FigureRequest& request) {
  if (!request.query_head) return request.kv_head.value_or(info.heads.first());
  const int layer = chosen_layer(info, request);
  require_layer(info, layer);
  require_query_head(info, layer, *request.query_head);
  const int group_head = *request.query_head / info.model.group_size(layer);
  if (request.kv_head && *request.kv_head != group_head)
    throw UsageError(fmt::format("query head {} reads KV head {}, not {}", *request.query_head, group_head,
                                 *request.kv_head));
  return group_head;
}

KeyspaceLook chosen_look(const FigureRequest& request) {
  if (request.components != 2 && request.components != 3)
    throw UsageError(
        fmt::format("{} principal components are asked for; expected 2 or 3", request.components));
  const bool three = request.components == 3;
  Projection projection = request.projection.value_or(three ? Projection::kPca3d : Projection::kPca);
  if (three && projection != Projection::kPca && projection != Projection::kPca3d)
    throw UsageError(fmt::format("3 principal components are asked for, but projection '{}' has {}",
                                 id_of(projection), projection == Projection::kAnchor ? "none" : "2"));
  if (three) projection = Projection::kPca3d;
  return {projection, request.colour, request.queries, -1, request.density};
}

void check_block(const RecordingInfo& info, int run, const FigureRequest& request) {
  require_run(info, run);
  if (request.block) resolve_block(info.runs[run], *request.block);
}

std::vector<int> chosen_runs(const RecordingInfo& info, const FigureRequest& request) {
  std::vector<int> runs;
  for (const std::string& name : without_repeats(request.runs)) runs.push_back(find_run(info, name));
  if (request.runs.empty())
    for (std::size_t run = 0; run < info.runs.size(); ++run) runs.push_back(static_cast<int>(run));
  return runs;
}

std::vector<int> chosen_evicting_runs(const RecordingInfo& info, const FigureRequest& request) {
  std::vector<int> runs = chosen_runs(info, request);
  std::erase_if(runs, [&](int run) { return info.runs[run].plan.policy == "none"; });
  return runs;
}

measures::HeadSelection chosen_head(const RecordingInfo& info, const FigureRequest& request) {
  const measures::HeadSelection head{only_run(info, request), chosen_layer(info, request),
                                     chosen_kv_head(info, request)};
  require_run(info, head.run);
  require_layer(info, head.layer);
  require_kv_head(info, head.layer, head.kv_head);
  return head;
}

int chosen_query_head(const RecordingInfo& info, const FigureRequest& request) {
  const int layer = chosen_layer(info, request), kv_head = chosen_kv_head(info, request);
  require_kv_head(info, layer, kv_head);
  return request.query_head.value_or(kv_head * info.model.group_size(layer));
}

namespace {

using recording::RunInfo;

std::vector<std::string> run_names(const RecordingInfo& info) {
  std::vector<std::string> names;
  names.reserve(info.runs.size());
  for (const RunInfo& run : info.runs) names.push_back(run.plan.name);
  return names;
}

//   whose: "the model" or "layer 5"
[[noreturn]] void refuse_head(std::string_view kind, int head, int n_heads, const std::string& whose) {
  throw UsageError(n_heads == 1
                       ? fmt::format("{} {} is not there: {} has only {} 0", kind, head, whose, kind)
                       : fmt::format("{} {} is not there: {}'s are 0 to {}", kind, head, whose, n_heads - 1));
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
                               shown_list(run_names(info))));
}

std::vector<std::string> without_repeats(const std::vector<std::string>& runs) {
  std::vector<std::string> distinct;
  for (const std::string& run : runs)
    if (std::ranges::find(distinct, run) == distinct.end()) distinct.push_back(run);
  return distinct;
}

void require_layer(const RecordingInfo& info, int layer) {
  if (const std::string refusal = recording::layer_refusal(info, layer); !refusal.empty())
    throw UsageError(fmt::format("{}: {}", info.source, refusal));
}

void require_kv_head(const RecordingInfo& info, int layer, int kv_head) {
  const int n_kv_heads = info.model.heads(layer).n_kv_heads;
  if (kv_head < 0 || kv_head >= n_kv_heads)
    refuse_head("KV head", kv_head, n_kv_heads,
                info.model.layer_heads.empty() ? "the model" : fmt::format("layer {}", layer));
  if (!info.heads.has(kv_head))
    throw UsageError(fmt::format("{}: {}", info.source, info.heads.refusal(kv_head)));
}

void require_query_head(const RecordingInfo& info, int layer, int query_head) {
  if (query_head < 0 || query_head >= info.model.n_heads)
    refuse_head("query head", query_head, info.model.n_heads, "the model");
  require_kv_head(info, layer, query_head / info.model.group_size(layer));
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

int first_evicting_run(const RecordingInfo& info) {
  for (std::size_t run = 0; run < info.runs.size(); ++run)
    if (info.runs[run].plan.policy != "none") return static_cast<int>(run);
  return -1;
}

std::string describe_prompt(const RecordingInfo& info) {
  return fmt::format("{}{}prompt of {} token{}", info.model.name, info.model.name.empty() ? "" : ", ",
                     format_count(info.n_prompt()), info.n_prompt() == 1 ? "" : "s");
}

std::string describe_kv_heads(const RecordingInfo& info) {
  int least = info.model.n_kv_heads, most = info.layers.empty() ? least : 0;
  for (const int layer : info.layers) {
    least = std::min(least, info.model.heads(layer).n_kv_heads);
    most = std::max(most, info.model.heads(layer).n_kv_heads);
  }
  return fmt::format("{}{} KV head{}", least < most ? fmt::format("{} to ", least) : "", most,
                     most == 1 ? "" : "s");
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
