#include "app/figures/registry.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/errors.hpp"
#include "app/figures/attention.hpp"
#include "app/figures/block_times.hpp"
#include "app/figures/cosine_matrix.hpp"
#include "app/figures/head_selection.hpp"
#include "app/figures/keyspace.hpp"

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
  if (!request.query_head) return request.kv_head.value_or(0);
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

// A new figure is one file with its builder and one line here.
constexpr std::array kBuilders{
    Builder{"keyspace", FigureScope::kKvHead, true, " layer kv-head query-head block components queries ",
            has_keys, build_keyspace},
    Builder{"cosine-matrix", FigureScope::kKvHead, false, " layer kv-head query-head block retained reduce ",
            has_keys, build_cosine_matrix},
    Builder{"attention", FigureScope::kQueryHead, false, " layer kv-head query-head block linear reduce ",
            has_attention, build_attention},
    Builder{"block-times", FigureScope::kRecording, true, "", has_block_times, build_block_times},
};

const Builder& find_builder(std::string_view name) {
  const auto found = std::ranges::find(kBuilders, name, &Builder::name);
  if (found != kBuilders.end()) return *found;
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
  return builder.build(recording, *recording.info(), request);
}

}  // namespace keyscope::figures
