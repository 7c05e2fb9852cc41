#include "app/figures/registry.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/errors.hpp"
#include "app/figures/attention.hpp"
#include "app/figures/block_times.hpp"
#include "app/figures/cosine_matrix.hpp"
#include "app/figures/head_map.hpp"
#include "app/figures/head_selection.hpp"
#include "app/figures/head_spread.hpp"
#include "app/figures/keyspace.hpp"
#include "app/figures/policy_spread.hpp"
#include "app/figures/rank_correlation.hpp"
#include "app/measures/head_data.hpp"

namespace keyscope::figures {
namespace {

using recording::Recording;
using recording::RecordingInfo;

int only_run(const RecordingInfo& info, const FigureRequest& request) {
  const std::size_t n_runs = without_repeats(request.runs).size();
  if (n_runs > 1)
    throw UsageError(fmt::format("figure '{}' shows one run, but {} were given", request.name, n_runs));
  return request.runs.empty() ? reference_run(info) : find_run(info, request.runs.front());
}

int chosen_layer(const RecordingInfo& info, const FigureRequest& request) {
  return request.layer.value_or(info.layers.empty() ? 0 : info.layers.front());
}

// The KV head asked for, or that of the query head asked for.
int chosen_kv_head(const RecordingInfo& info, const FigureRequest& request) {
  if (!request.query_head) return request.kv_head.value_or(info.heads.first());
  require_query_head(info, *request.query_head);
  const int group_head = *request.query_head / info.model.group_size();
  if (request.kv_head && *request.kv_head != group_head)
    throw UsageError(fmt::format("query head {} reads KV head {}, not {}", *request.query_head, group_head,
                                 *request.kv_head));
  return group_head;
}

void check_block(const RecordingInfo& info, int run, const FigureRequest& request) {
  require_run(info, run);
  if (request.block) resolve_block(info.runs[run], *request.block);
}

// Those asked for, by default all.
std::vector<int> chosen_runs(const RecordingInfo& info, const FigureRequest& request) {
  std::vector<int> runs;
  for (const std::string& name : without_repeats(request.runs)) runs.push_back(find_run(info, name));
  if (request.runs.empty())
    for (std::size_t run = 0; run < info.runs.size(); ++run) runs.push_back(static_cast<int>(run));
  return runs;
}

Figure build_keyspace(const Recording& recording, const RecordingInfo& info, const FigureRequest& request) {
  KeyspaceSelection selection;
  selection.runs = chosen_runs(info, request);
  selection.layer = chosen_layer(info, request);
  selection.kv_head = chosen_kv_head(info, request);
  selection.block = request.block.value_or(-1);
  selection.components = request.components;
  selection.queries = request.queries;
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
  selection.reduction = request.reduction.value_or(selection.reduction);
  return cosine_matrix_figure(recording, selection);
}

Figure build_attention(const Recording& recording, const RecordingInfo& info, const FigureRequest& request) {
  AttentionSelection selection;
  selection.run = only_run(info, request);
  selection.layer = chosen_layer(info, request);
  const int kv_head = chosen_kv_head(info, request);
  require_kv_head(info, kv_head);
  selection.query_head = request.query_head.value_or(kv_head * info.model.group_size());
  selection.block = request.block.value_or(-1);
  selection.logarithmic = request.logarithmic;
  selection.reduction = request.reduction.value_or(selection.reduction);
  return attention_figure(recording, selection);
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

Figure build_policy_spread(const Recording& recording, const RecordingInfo& info,
                           const FigureRequest& request) {
  const auto measures = compared_measures();
  return policy_spread_figure(recording, {chosen_runs(info, request), request.block.value_or(-1)},
                              *std::ranges::find(measures, request.name, &ComparedMeasure::figure));
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

bool has_full_cache(const RecordingInfo& info) { return measures::full_cache_run(info) >= 0; }
bool has_keys_and_queries(const RecordingInfo& info) { return info.keys && info.queries; }
bool has_full_cache_values(const RecordingInfo& info) {
  return has_full_cache(info) && info.keys && info.queries && info.values;
}

bool has_keys(const RecordingInfo& info) { return info.keys; }
bool has_attention(const RecordingInfo& info) { return info.attention || (info.keys && info.queries); }

struct Builder {
  std::string_view name;
  FigureScope scope;
  bool several_runs;
  std::string_view options;  // that it understands, between spaces
  bool (*is_recorded)(const RecordingInfo&);
  Figure (*build)(const Recording&, const RecordingInfo&, const FigureRequest&);
};

constexpr std::string_view kHeadOptions = " layer kv-head query-head block components queries ";
constexpr std::string_view kCosineOptions = " layer kv-head query-head block retained reduce ";
constexpr std::string_view kAttentionOptions = " layer kv-head query-head block linear reduce ";
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
    Builder{"block-times", kRecording, true, "", has_block_times, build_block_times},
};

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
};

// The paper's figures that are not made of a recording.
constexpr std::array kMadeElsewhere{
    FigureAlias{"fig7", "bench prefill"},
    FigureAlias{"fig17", "bench prefill"},
    FigureAlias{"table19", "bench score"},
};

const Builder& find_builder(std::string_view name) {
  const auto alias = std::ranges::find(kAliases, name, &FigureAlias::paper);
  if (alias != kAliases.end()) name = alias->name;
  const auto found = std::ranges::find(kBuilders, name, &Builder::name);
  if (found != kBuilders.end()) return *found;
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
    all.reserve(kBuilders.size());
    for (const Builder& builder : kBuilders) all.push_back(builder.name);
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
  if (builder.scope != FigureScope::kRecording) {
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
  return builder.build(recording, *recording.info(), named);
}

}  // namespace keyscope::figures
