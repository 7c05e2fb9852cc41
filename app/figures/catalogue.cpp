#include "app/figures/builders.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/figures/ablation.hpp"
#include "app/figures/attention.hpp"
#include "app/figures/block_times.hpp"
#include "app/figures/bounds.hpp"
#include "app/figures/cosine_matrix.hpp"
#include "app/figures/diversity.hpp"
#include "app/figures/head_comparison.hpp"
#include "app/figures/head_map.hpp"
#include "app/figures/head_measure.hpp"
#include "app/figures/head_selection.hpp"
#include "app/figures/head_spread.hpp"
#include "app/figures/keyspace.hpp"
#include "app/figures/lifespans.hpp"
#include "app/figures/overlap.hpp"
#include "app/figures/policy_spread.hpp"
#include "app/figures/rank_correlation.hpp"
#include "app/figures/relaxation_gap.hpp"
#include "app/figures/score_attention.hpp"
#include "app/measures/head_data.hpp"

namespace keyscope::figures {
namespace {

using recording::Recording;
using recording::RecordingInfo;

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

}  // namespace keyscope::figures
