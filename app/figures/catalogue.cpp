#include "app/figures/catalogue.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figures/axis_ticks.hpp"
#include "app/figures/figure_builders.hpp"
#include "app/figures/head_measure.hpp"
#include "app/figures/keyspace.hpp"
#include "app/measures/head_data.hpp"
#include "base/errors.hpp"

namespace keyscope::figures {

namespace {

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
    FigureAlias{"fig7", "bench prefill"},  FigureAlias{"fig17", "bench prefill"},
    FigureAlias{"table8", "prompts"},      FigureAlias{"table9", "prompts"},
    FigureAlias{"table19", "bench score"},
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

bool understands(std::string_view figure, std::string_view option) {
  return find_builder(figure).options.find(fmt::format(" {} ", option)) != std::string_view::npos;
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
    require_kv_head(info, chosen_kv_head(info, request));
  }
  if (!builder.several_runs)
    check_block(info, only_run(info, request), request);
  else if (request.runs.empty())
    check_block(info, 0, request);
  for (const std::string& name : request.runs) check_block(info, find_run(info, name), request);
}

Figure build_figure(const Recording& recording, const FigureRequest& request) {
  const Builder& builder = find_builder(request.name);
  FigureRequest named = request;
  named.name = builder.name;
  if (request.grid) return small_multiples_figure(recording, builder, named);
  return builder.build(recording, *recording.info(), named);
}

namespace {

// In a cell of small multiples more would not be seen, and of a hundred cells each would cost.
constexpr int kSmallHeatmapSize = 256;

Figure build_keyspace(const Recording& recording, const RecordingInfo& info, const FigureRequest& request) {
  KeyspaceSelection selection;
  selection.runs = chosen_runs(info, request);
  selection.layer = chosen_layer(info, request);
  selection.kv_head = chosen_kv_head(info, request);
  selection.block = request.block.value_or(-1);
  selection.look = chosen_look(request);
  return keyspace_figure(recording, selection);
}

Figure build_cosine_matrix(const Recording& recording, const RecordingInfo& info,
                           const FigureRequest& request) {
  CosineMatrixSelection selection;
  selection.run = only_run(info, request);
  selection.layer = chosen_layer(info, request);
  selection.kv_head = chosen_kv_head(info, request);
  selection.block = request.block.value_or(-1);
  selection.retained_only = request.retained_only;
  selection.order = request.order;
  selection.most_ordered = request.most_ordered;
  selection.reduction = request.reduction.value_or(selection.reduction);
  selection.max_size = request.max_size.value_or(selection.max_size);
  if (request.small) selection.max_size = kSmallHeatmapSize;
  return cosine_matrix_figure(recording, selection);
}

Figure build_attention(const Recording& recording, const RecordingInfo& info, const FigureRequest& request) {
  AttentionSelection selection;
  selection.run = only_run(info, request);
  selection.layer = chosen_layer(info, request);
  selection.query_head = chosen_query_head(info, request);
  selection.block = request.block.value_or(-1);
  selection.logarithmic = request.logarithmic;
  selection.reduction = request.reduction.value_or(selection.reduction);
  selection.max_size = request.max_size.value_or(selection.max_size);
  if (request.small) selection.max_size = kSmallHeatmapSize;
  return attention_figure(recording, selection);
}

Figure build_score_attention(const Recording& recording, const RecordingInfo& info,
                             const FigureRequest& request) {
  return score_attention_figure(recording, {only_run(info, request), chosen_layer(info, request),
                                            chosen_kv_head(info, request), request.ranks, request.small});
}

// By default of a run that evicts: in the others every life is the same.
Figure build_lifespans(const Recording& recording, const RecordingInfo& info, const FigureRequest& request) {
  int run = only_run(info, request);
  if (request.runs.empty()) {
    const auto evicting =
        std::ranges::find_if(info.runs, [](const auto& each) { return each.plan.policy != "none"; });
    if (evicting != info.runs.end()) run = static_cast<int>(evicting - info.runs.begin());
  }
  return lifespans_figure(recording,
                          {run, chosen_layer(info, request), chosen_kv_head(info, request), request.margins});
}

Figure build_block_times(const Recording& recording, const RecordingInfo& info,
                         const FigureRequest& request) {
  return block_times_figure(recording, {chosen_runs(info, request)});
}

// The matrices of one head side by side.
Figure build_cosine_and_attention(const Recording& recording, const RecordingInfo& info,
                                  const FigureRequest& request) {
  Figure figure = build_attention(recording, info, request);
  Figure cosines = build_cosine_matrix(recording, info, request);
  figure.name = "cosine-and-attention";
  figure.title = fmt::format("Cosines of keys beside attention, layer {}, query head {}", figure.view.layer,
                             figure.view.query_head);
  cosines.panels.front().title = "cosines of keys";
  figure.panels.front().title = "attention";
  figure.panels.insert(figure.panels.begin(), std::move(cosines.panels.front()));
  figure.columns = 2;
  return figure;
}

Figure build_head_map(const Recording& recording, const RecordingInfo& info, const FigureRequest& request) {
  const auto measures = mapped_measures();
  return head_map_figure(recording, only_run(info, request),
                         *std::ranges::find(measures, request.name, &MappedMeasure::figure));
}

Figure build_head_comparison(const Recording& recording, const RecordingInfo& info,
                             const FigureRequest& request) {
  HeadComparison selection{only_run(info, request)};
  if (request.reference) selection.reference = find_run(info, *request.reference);
  const HeadMeasure& measure =
      request.measure ? find_head_measure(*request.measure) : head_measures().front();
  if (measure.of_two_runs() && !request.reference)
    throw UsageError(
        fmt::format("the measure {} is of two runs; name the other one by --reference", measure.id));
  return head_comparison_figure(recording, selection, measure);
}

Figure build_policy_spread(const Recording& recording, const RecordingInfo& info,
                           const FigureRequest& request) {
  const auto measures = compared_measures();
  return policy_spread_figure(recording, {chosen_runs(info, request), request.block.value_or(-1)},
                              *std::ranges::find(measures, request.name, &ComparedMeasure::figure));
}

Figure build_ablation(const Recording& recording, const RecordingInfo& info, const FigureRequest& request) {
  return ablation_figure(recording, {chosen_runs(info, request), request.block.value_or(-1)});
}

Figure build_bounds(const Recording& recording, const RecordingInfo& info, const FigureRequest& request) {
  return bounds_figure(recording, only_run(info, request));
}

Figure build_diversity(const Recording& recording, const RecordingInfo& info, const FigureRequest& request) {
  return diversity_figure(recording, {chosen_runs(info, request)});
}

Figure build_overlap(const Recording& recording, const RecordingInfo& info, const FigureRequest& request) {
  return overlap_figure(recording, {chosen_runs(info, request), request.block.value_or(-1)});
}

Figure build_relaxation_gap(const Recording& recording, const RecordingInfo& info,
                            const FigureRequest& request) {
  return relaxation_gap_figure(recording, {chosen_runs(info, request), request.block.value_or(-1)});
}

Figure build_mean_cosines(const Recording& recording, const RecordingInfo& info,
                          const FigureRequest& request) {
  return mean_cosines_figure(recording, only_run(info, request));
}

Figure build_norms(const Recording& recording, const RecordingInfo& info, const FigureRequest& request) {
  return norms_figure(recording, only_run(info, request));
}

Figure build_rank_correlation(const Recording& recording, const RecordingInfo& info,
                              const FigureRequest& request) {
  return rank_correlation_figure(recording, only_run(info, request));
}

bool has_runs(const RecordingInfo& info) { return !info.runs.empty(); }
bool has_full_cache(const RecordingInfo& info) { return measures::full_cache_run(info) >= 0; }
bool has_keys_and_queries(const RecordingInfo& info) { return info.keys && info.queries; }
bool has_full_cache_values(const RecordingInfo& info) {
  return has_full_cache(info) && info.keys && info.queries && info.values;
}

bool evicts(const RecordingInfo& info) {
  return std::ranges::any_of(info.runs, [](const auto& run) { return run.plan.policy != "none"; });
}
bool has_evicted_keys(const RecordingInfo& info) { return info.keys && evicts(info); }
bool has_evictions_to_judge(const RecordingInfo& info) { return has_full_cache(info) && evicts(info); }
bool has_keys(const RecordingInfo& info) { return info.keys; }
bool has_attention(const RecordingInfo& info) { return info.attention || (info.keys && info.queries); }

constexpr std::string_view kHeadOptions =
    " layer kv-head query-head layers block components projection colour queries ";
constexpr std::string_view kCosineOptions = " layer kv-head query-head layers block retained order reduce ";
constexpr std::string_view kAttentionOptions = " layer kv-head query-head layers block linear reduce ";
constexpr std::string_view kScoreOptions = " layer kv-head query-head layers ranks ";
constexpr std::string_view kBothOptions = " layer kv-head query-head block retained linear reduce ";

constexpr auto kKvHead = FigureScope::kKvHead;
constexpr auto kQueryHead = FigureScope::kQueryHead;
constexpr auto kRecording = FigureScope::kRecording;

// A new figure is one file with its builder and one line here.
constexpr std::array kBuilders{
    Builder{"keyspace", kKvHead, true, kHeadOptions, has_keys, build_keyspace},
    Builder{"cosine-matrix", kKvHead, false, kCosineOptions, has_keys, build_cosine_matrix},
    Builder{"attention", kQueryHead, false, kAttentionOptions, has_attention, build_attention},
    Builder{"cosine-and-attention", kQueryHead, false, kBothOptions, has_keys_and_queries,
            build_cosine_and_attention},
    Builder{"score-attention", kKvHead, false, kScoreOptions, has_keys, build_score_attention},
    Builder{"lifespans", kKvHead, false, " layer kv-head margins ", has_runs, build_lifespans},
    Builder{"head-map", kRecording, false, " measure reference ", has_runs, build_head_comparison},
    Builder{"rank-correlation", kRecording, false, "", has_keys, build_rank_correlation},
    Builder{"mean-cosines", kRecording, false, "", has_keys, build_mean_cosines},
    Builder{"mean-key-query-cosine", kRecording, false, "", has_keys_and_queries, build_head_map},
    Builder{"top-key-query-cosine", kRecording, false, "", has_keys_and_queries, build_head_map},
    Builder{"key-norms", kRecording, false, "", has_keys, build_norms},
    Builder{"log-volume", kRecording, true, " block ", has_keys, build_policy_spread},
    Builder{"redundancy", kRecording, true, " block ", has_keys, build_policy_spread},
    Builder{"cosine-objective", kRecording, true, " block ", has_keys, build_policy_spread},
    Builder{"attention-mass", kRecording, true, " block ", has_full_cache, build_policy_spread},
    Builder{"output-error", kRecording, true, " block ", has_full_cache_values, build_policy_spread},
    Builder{"diversity", kRecording, true, "", has_keys, build_diversity},
    Builder{"bounds", kRecording, false, "", has_keys_and_queries, build_bounds},
    Builder{"overlap", kRecording, true, " block ", has_runs, build_overlap},
    Builder{"relaxation-gap", kRecording, true, " block ", has_evicted_keys, build_relaxation_gap},
    Builder{"ablation", kRecording, true, " block ", has_evictions_to_judge, build_ablation},
    Builder{"block-times", kRecording, true, "", has_block_times, build_block_times},
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
  require_query_head(info, *request.query_head);
  const int group_head = *request.query_head / info.model.group_size();
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
  if (three && projection == Projection::kAnchor)
    throw UsageError("3 principal components are asked for, but projection 'anchor' has none");
  if (three) projection = Projection::kPca3d;
  return {projection, request.colour, request.queries};
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

int chosen_query_head(const RecordingInfo& info, const FigureRequest& request) {
  const int kv_head = chosen_kv_head(info, request);
  require_kv_head(info, kv_head);
  return request.query_head.value_or(kv_head * info.model.group_size());
}

namespace {

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
