#include "app/figures/catalogue.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/figures/head_selection.hpp"

namespace keyscope::figures {

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

}  // namespace keyscope::figures
