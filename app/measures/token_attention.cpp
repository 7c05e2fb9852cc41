#include "app/measures/token_attention.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "app/measures/attention_column.hpp"
#include "app/measures/attention_weights.hpp"

namespace keyscope::measures {
namespace {

using recording::Recording;
using recording::RecordingInfo;

bool has_attention(const RecordingInfo& info, int run, int kv_head) {
  const bool replayed = info.runs[static_cast<std::size_t>(run)].plan.replayed;
  return !replayed && info.heads.has(kv_head) && (info.attention || (info.keys && info.queries));
}

std::string why_not(const RecordingInfo& info, int run, int kv_head) {
  if (has_attention(info, run, kv_head)) return "";
  if (info.runs[static_cast<std::size_t>(run)].plan.replayed)
    return "not recorded: no query attended in a replayed run";
  if (!info.heads.has(kv_head)) return "not recorded for this head";
  return "not recorded: it takes attention, or keys and queries";
}

// Mean over the group of the weights of queries [first, first + count); NaN where a row was not visible.
RowMatrixF group_attention(const Recording& recording, const RecordingInfo& info,
                           const HeadSelection& selection, std::int64_t first, std::int64_t count) {
  const int group = info.model.group_size();
  RowMatrixF mean;
  for (int g = 0; g < group; ++g) {
    RowMatrixF weights = visible_attention(recording, selection.run, selection.layer,
                                           selection.kv_head * group + g, first, count);
    mean = g == 0 ? std::move(weights) : RowMatrixF(mean + weights);
  }
  return mean / static_cast<float>(group);
}

// The weights of queries [first, last) on one token.
void for_each_weight(const Recording& recording, const HeadSelection& selection, std::int64_t position,
                     std::int64_t first, std::int64_t last, const std::atomic<bool>& cancelled,
                     const std::function<void(std::int64_t query, double weight)>& take) {
  for (const double weight : attention_column(recording, selection, position, first, last, cancelled)) {
    if (!std::isnan(weight)) take(first, weight);
    ++first;
  }
}

void keep_most(std::vector<AttentionPeer>& peers, std::size_t n_most) {
  const auto end = peers.begin() + static_cast<std::ptrdiff_t>(std::min(n_most, peers.size()));
  std::partial_sort(peers.begin(), end, peers.end(), [](const AttentionPeer& a, const AttentionPeer& b) {
    return a.weight > b.weight || (a.weight == b.weight && a.position < b.position);
  });
  peers.erase(end, peers.end());
}

// Where the queries end that could see a token: at the last token of the block that evicted it.
std::int64_t end_of_sight(const recording::RunInfo& run, std::int32_t evicted_at) {
  return evicted_at < 0 ? run.n_tokens : recording::tokens_seen(run, evicted_at);
}

}  // namespace

TokenAttention token_attention(const Recording& recording, const HeadSelection& selection,
                               std::int64_t position, std::size_t n_most,
                               const std::atomic<bool>& cancelled) {
  const auto info = recording.info();
  TokenAttention attention;
  attention.missing = why_not(*info, selection.run, selection.kv_head);
  if (!attention.missing.empty()) return attention;
  const RowMatrixF own = group_attention(recording, *info, selection, position, 1);
  for (Eigen::Index row = 0; row < own.cols(); ++row)
    if (!std::isnan(own(0, row)))
      attention.attended_to.push_back({static_cast<std::int32_t>(row), static_cast<double>(own(0, row))});
  const auto evicted_at =
      recording.trace(selection.run, selection.layer, selection.kv_head).evicted_at.at(position);
  for_each_weight(recording, selection, position, position + 1,
                  end_of_sight(run_of(*info, selection.run), evicted_at), cancelled,
                  [&](std::int64_t query, double weight) {
                    attention.attended_by.push_back({static_cast<std::int32_t>(query), weight});
                  });
  keep_most(attention.attended_to, n_most);
  keep_most(attention.attended_by, n_most);
  return attention;
}

std::optional<Afterlife> attention_afterwards(const Recording& recording, const HeadSelection& selection,
                                              std::int64_t position, const std::atomic<bool>& cancelled) {
  const auto info = recording.info();
  const int full = full_cache_run(*info);
  const auto evicted_at =
      recording.trace(selection.run, selection.layer, selection.kv_head).evicted_at.at(position);
  if (full < 0 || evicted_at < 0 || position >= info->n_prompt() ||
      !has_attention(*info, full, selection.kv_head))
    return std::nullopt;
  const HeadSelection there{full, selection.layer, selection.kv_head};
  const std::int64_t first =
      std::min(info->n_prompt(), end_of_sight(run_of(*info, selection.run), evicted_at));
  Afterlife after;
  after.n_queries = info->n_prompt() - first;
  after.received_in_all =
      recording.trace(full, selection.layer, selection.kv_head).attention_received.at(position);
  for_each_weight(recording, there, position, first, info->n_prompt(), cancelled,
                  [&](std::int64_t, double weight) { after.received += weight; });
  if (after.n_queries > 0) after.per_query = after.received / static_cast<double>(after.n_queries);
  return after;
}

}  // namespace keyscope::measures
