#include "capture/replay/head_replay.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include "analysis/matrix_view.hpp"
#include "analysis/policies/score_parts.hpp"
#include "analysis/policies/slot_selection.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "capture/model/recorded_attention.hpp"

namespace keyscope::replay {

namespace {

using analysis::PolicyInput;

// What a policy may look at, of the rows that are present.
struct PresentRows {
  RowMatrixF keys, values;
  std::vector<float> last_row_group, last_row_layer, window_sums;
  std::vector<double> attention_received;
  std::vector<std::int32_t> attention_queries;
};

RowMatrixF gather(const RowMatrixF& all, const std::vector<std::int32_t>& positions) {
  if (all.rows() == 0) return RowMatrixF(0, all.cols());
  RowMatrixF present(static_cast<Eigen::Index>(positions.size()), all.cols());
  for (std::size_t i = 0; i < positions.size(); ++i)
    present.row(static_cast<Eigen::Index>(i)) = all.row(positions[i]);
  return present;
}

template <typename T>
std::vector<T> gather(const std::vector<T>& all, const std::vector<std::int32_t>& positions) {
  std::vector<T> present;
  if (all.empty()) return present;
  present.reserve(positions.size());
  for (const std::int32_t position : positions) present.push_back(all[position]);
  return present;
}

PresentRows gather(const HeadSource& source, const std::vector<std::int32_t>& positions) {
  return {gather(source.keys, positions),
          gather(source.values, positions),
          gather(source.last_row_group, positions),
          gather(source.last_row_layer, positions),
          gather(source.window_sums, positions),
          gather(source.attention_received, positions),
          gather(source.attention_queries, positions)};
}

// Of every query head the last `window` queries of a block of n that ends before position `end`, one head
// after the other.
RowMatrixD last_queries(const std::vector<RowMatrixF>& heads, std::int64_t end, std::int64_t n, int window) {
  const Eigen::Index n_last = std::min<Eigen::Index>(window, n);
  RowMatrixD all(n_last * std::ssize(heads), heads.front().cols());
  for (std::size_t head = 0; head < heads.size(); ++head)
    all.middleRows(static_cast<Eigen::Index>(head) * n_last, n_last) =
        heads[head].middleRows(end - n_last, n_last).cast<double>();
  return all;
}

// One KV head under a policy, block after block.
class HeadReplay {
 public:
  HeadReplay(const analysis::Policy& policy, const HeadSource& source, int kv_head,
             const ReplayedCache& cache)
      : policy_(policy),
        needs_(policy.needs()),
        source_(source),
        kv_head_(kv_head),
        cache_(cache),
        moments_(source.unrotated_queries.size()) {
    evictions_.evicted_at.assign(source.keys.rows(), -1);
    evictions_.evicted_margin.assign(source.keys.rows(), std::numeric_limits<float>::quiet_NaN());
  }

  // Lets the next rows in, and out what a window has passed.
  void admit(std::int64_t start, std::int64_t n_new, std::int32_t block) {
    block_ = block;
    for (std::int64_t i = 0; i < n_new; ++i) positions_.push_back(static_cast<std::int32_t>(start + i));
    if (cache_.window > 0) drop_past_window(start + n_new);
    n_queries_ = n_new;
    end_ = start + n_new;
    for (std::size_t head = 0; head < moments_.size(); ++head)
      moments_[head].add(source_.unrotated_queries[head].middleRows(start, n_new), source_.rotation);
  }

  std::int64_t n_rows() const { return std::ssize(positions_); }

  // Valid until the rows change.
  analysis::RankedRows rank() {
    const PresentRows rows = gather(source_, positions_);
    PolicyInput input{.keys = rows.keys,
                      .values = rows.values,
                      .positions = positions_,
                      .n_new_rows = std::min(n_queries_, n_rows()),  // a window may have dropped some
                      .budget = cache_.budget,
                      .layer = cache_.layer,
                      .kv_head = kv_head_,
                      .last_row_group = rows.last_row_group,
                      .last_row_layer = rows.last_row_layer,
                      .attention_received = rows.attention_received,
                      .attention_queries = rows.attention_queries,
                      .window_sums = rows.window_sums,
                      .rotation = &source_.rotation,
                      .query_moments = moments_};
    add_queries(input);
    scores_.assign(positions_.size(), 0);
    forced_.assign(positions_.size(), 0);
    policy_.score(input, scores_);
    policy_.force(input, cache_.budget, forced_);
    value_norms_ = gather(source_.value_norms, positions_);
    return {scores_, forced_, positions_, value_norms_};
  }

  void evict(const analysis::Selection& selection) {
    for (std::size_t i = 0; i < selection.evicted.size(); ++i) {
      const std::int32_t at = positions_[selection.evicted[i]];
      evictions_.evicted_at[at] = block_;
      evictions_.evicted_margin[at] = selection.margin[i];
    }
    positions_ = gather(positions_, selection.retained);
  }

  HeadEvictions& evictions() { return evictions_; }

 private:
  // Rows that no query from `next` on sees go first and for good, and have no margin.
  void drop_past_window(std::int64_t next) {
    const auto past = std::lower_bound(positions_.begin(), positions_.end(), next - cache_.window + 1);
    for (auto row = positions_.begin(); row != past; ++row) evictions_.evicted_at[*row] = block_;
    positions_.erase(positions_.begin(), past);
  }

  void add_queries(PolicyInput& input) {
    input.group_size = static_cast<int>(std::max({source_.queries.size(), moments_.size(), std::size_t{1}}));
    const auto last = [&](int window) { return last_queries(source_.queries, end_, n_queries_, window); };
    if (needs_.window_queries > 0) {
      window_queries_ = last(needs_.window_queries);
      input.window_queries = &window_queries_;
    }
    if (needs_.window_weights > 0) {
      window_weights_ =
          analysis::weights_on_rows(last(needs_.window_weights), end_, source_.rules, input.keys, positions_);
      input.window_weights = &window_weights_;
    }
  }

  const analysis::Policy& policy_;
  const analysis::PolicyNeeds needs_;
  const HeadSource& source_;
  int kv_head_;
  const ReplayedCache& cache_;
  HeadEvictions evictions_;
  std::vector<std::int32_t> positions_;  // of the rows that are present, ascending
  std::vector<double> scores_, value_norms_;
  std::vector<std::uint8_t> forced_;
  RowMatrixD window_queries_, window_weights_;
  std::vector<analysis::QueryMoments> moments_;  // per query head, of all queries so far
  std::int64_t n_queries_ = 0, end_ = 0;         // of the block, and the position behind it
  std::int32_t block_ = 0;
};

// Block by block: next(start, n_new, block).
template <typename Next>
void for_each_block(std::int64_t n_tokens, std::int64_t block_size, const Next& next) {
  std::int32_t block = 0;
  for (std::int64_t start = 0; start < n_tokens; start += block_size, ++block)
    next(start, std::min(block_size, n_tokens - start), block);
}

}  // namespace

std::int64_t HeadEvictions::n_retained() const {
  return std::count(evicted_at.begin(), evicted_at.end(), -1);
}

bool cuts_heads_alone(const analysis::Policy& policy) {
  return !policy.slots().joint() && policy.slots().split == analysis::Slots::Split::kUniform;
}

HeadEvictions replay_head(const analysis::Policy& policy, const HeadSource& source, int kv_head,
                          const ReplayedCache& cache,
                          const std::function<void(std::int64_t n_rows)>& after_block) {
  HeadReplay head(policy, source, kv_head, cache);
  const analysis::LayerCut cut{{&cache.budget, 1}, cache.budget};
  for_each_block(source.keys.rows(), cache.block_size,
                 [&](std::int64_t start, std::int64_t n_new, std::int32_t block) {
                   head.admit(start, n_new, block);
                   if (head.n_rows() > cache.budget && policy.evicts(cache.layer) &&
                       !policy.keeps_all(cache.layer, kv_head)) {
                     const analysis::RankedRows rows = head.rank();
                     head.evict(analysis::select_layer(policy.slots(), {&rows, 1}, cut).front());
                   }
                   after_block(n_new);
                 });
  return std::move(head.evictions());
}

std::vector<HeadEvictions> replay_heads(const analysis::Policy& policy, std::span<const HeadSource> sources,
                                        const ReplayedCache& cache,
                                        const std::function<void(std::int64_t n_rows)>& after_block) {
  const auto n_heads = static_cast<int>(sources.size());
  std::vector<HeadReplay> heads;
  heads.reserve(sources.size());
  for (int head = 0; head < n_heads; ++head) heads.emplace_back(policy, sources[head], head, cache);
  const std::vector<std::int64_t> budgets(sources.size(), cache.budget);
  std::vector<std::int64_t> n_rows(sources.size());
  std::vector<analysis::RankedRows> rows(sources.size());
  for_each_block(
      sources.front().keys.rows(), cache.block_size,
      [&](std::int64_t start, std::int64_t n_new, std::int32_t block) {
        for (int head = 0; head < n_heads; ++head) {
          heads[head].admit(start, n_new, block);
          n_rows[head] = heads[head].n_rows();
        }
        if (policy.slots().due(n_rows, budgets) && policy.evicts(cache.layer)) {
          oneapi::tbb::parallel_for(0, n_heads, [&](int head) { rows[head] = heads[head].rank(); });
          const auto selections = analysis::select_layer(policy.slots(), rows, {budgets, cache.budget});
          for (int head = 0; head < n_heads; ++head) heads[head].evict(selections[head]);
        }
        after_block(n_new * n_heads);
      });
  std::vector<HeadEvictions> evictions;
  for (HeadReplay& head : heads) evictions.push_back(std::move(head.evictions()));
  return evictions;
}

namespace {

using analysis::PolicyNeeds;
using recording::Recording;
using recording::RecordingInfo;

void check_finite(const RowMatrixF& rows, std::string_view what, const RecordingInfo& info, int run,
                  int layer, int kv_head) {
  try {
    analysis::require_finite(rows, what);
  } catch (const InvalidInput& error) {
    throw FileError(fmt::format("{}: run {}, layer {}, KV head {}: {}", info.source, info.runs[run].plan.name,
                                layer, kv_head, error.what()));
  }
}

template <typename T>
std::vector<T> first(std::vector<T> values, std::int64_t n) {
  values.resize(n);
  return values;
}

std::vector<float> as_float(const Eigen::VectorXd& values) {
  std::vector<float> floats(values.size());
  std::ranges::transform(values, floats.begin(), [](double value) { return static_cast<float>(value); });
  return floats;
}

// Sums of the weights that the last prompt queries gave, a group's query heads averaged: as recorded, where
// it was for so many queries, else from the weights themselves.
std::vector<float> window_sums(const Recording& recording, const RecordingInfo& info, std::int64_t window,
                               int run, int layer, int kv_head) {
  if (window == recording::kRecordedWindow) {
    const RowMatrixF recorded = recording.statistics(run, layer).window;
    if (recorded.rows() > kv_head) {
      const float* row = recorded.row(kv_head).data();
      return {row, row + info.n_prompt()};
    }
  }
  const std::int64_t n_prompt = info.n_prompt(), n_queries = std::min(window, n_prompt);
  const int group_size = info.model.group_size(layer);
  Eigen::VectorXd sums = Eigen::VectorXd::Zero(n_prompt);
  for (int head = kv_head * group_size; head < (kv_head + 1) * group_size; ++head) {
    const RowMatrixF weights = recording.attention(run, layer, head, n_prompt - n_queries, n_queries);
    check_finite(weights, "attention", info, run, layer, kv_head);
    sums += weights.leftCols(n_prompt).cast<double>().colwise().sum().transpose();
  }
  return as_float(sums / group_size);
}

struct Place {
  int run, layer, kv_head;
};

// Of the prompt's tokens.
std::vector<double> value_norms(const Recording& recording, const analysis::Policy& policy, const Place& at) {
  const auto info = recording.info();
  if (const std::string refusal = value_norm_refusal(*info, policy.slots(), {&at.layer, 1}); !refusal.empty())
    throw FileError(fmt::format("{}: {}", info->source, refusal));
  const std::vector<float> norms =
      first(recording.trace(at.run, at.layer, at.kv_head).value_norms, info->n_prompt());
  check_finite(RowMatrixF::Map(norms.data(), 1, std::ssize(norms)), "value_norms", *info, at.run, at.layer,
               at.kv_head);
  return {norms.begin(), norms.end()};
}

// Queries of the head's group, as they were recorded, and before they turned.
void add_queries(HeadSource& source, const Recording& recording, const PolicyNeeds& needs, const Place& at) {
  const auto info = recording.info();
  if (const std::string refusal = query_refusal(*info, needs, {&at.layer, 1}); !refusal.empty())
    throw FileError(fmt::format("{}: {}", info->source, refusal));
  const capture::RecordedRope rope(*info, at.run, at.layer);
  source.rotation = rope.rotation();
  if (!needs.queries()) return;
  source.rules = capture::group_rules(recording, *info, at.run, at.layer, at.kv_head);
  const int group_size = info->model.group_size(at.layer);
  for (int head = at.kv_head * group_size; head < (at.kv_head + 1) * group_size; ++head) {
    RowMatrixF queries = recording.queries(at.run, at.layer, head, 0, info->n_prompt());
    check_finite(queries, "queries", *info, at.run, at.layer, at.kv_head);
    if (needs.query_moments) source.unrotated_queries.push_back(rope.unrotated(queries, 0));
    if (needs.window_queries > 0 || needs.window_weights > 0) source.queries.push_back(std::move(queries));
  }
}

}  // namespace

std::string oracle_statistic(const PolicyNeeds& needs) {
  if (needs.last_row_group || needs.last_row_layer) return "attention_last";
  if (needs.attention_received) return "attention_received";
  if (needs.window == recording::kRecordedWindow) return "attention_window";
  return needs.window > 0 ? "attention" : "";
}

int scored_layer(const RecordingInfo& info, int layer) {
  const int lender = info.model.lender(layer);
  return std::ranges::binary_search(info.layers, lender) ? lender : layer;
}

namespace {

// What decides about a layer's keys is that of its lender; empty where these lenders were recorded.
std::string lender_refusal(const RecordingInfo& info, std::span<const int> layers, const char* what) {
  for (const int layer : layers)
    if (const int lender = info.model.lender(layer); scored_layer(info, layer) != lender)
      return fmt::format(
          "layer {} borrows the keys of layer {}, whose {} decide about them and were not recorded; "
          "capture with that layer",
          layer, lender, what);
  return "";
}

}  // namespace

std::string value_norm_refusal(const RecordingInfo& info, const analysis::Slots& slots,
                               std::span<const int> layers) {
  if (!slots.weighs_values()) return "";
  if (!info.value_norms)
    return "it weighs values by the model's output projection (critical), and what that makes of them was "
           "not "
           "recorded; capture with --record keys,value-norms, or take critical=off";
  return lender_refusal(info, layers, "values");
}

std::string window_refusal(const RecordingInfo& info, const PolicyNeeds& needs) {
  const bool summed = needs.window == recording::kRecordedWindow;
  if (needs.window == 0 || info.attention || (summed && info.window_sums)) return "";
  return fmt::format(
      "it scores by the attention of the last {} queries, and attention weights were not recorded ({}); "
      "capture with --record keys,queries,attention",
      needs.window,
      summed ? "nor their sums, which captures always record"
             : fmt::format("their sums over the last {} always are", recording::kRecordedWindow));
}

std::string query_refusal(const RecordingInfo& info, const PolicyNeeds& needs, std::span<const int> layers) {
  if (!needs.queries() && !needs.rotation) return "";
  if (needs.queries() && !info.queries)
    return "it looks at queries, and none were recorded; capture with --record keys,queries";
  if (needs.queries())
    if (std::string refusal = lender_refusal(info, layers, "queries"); !refusal.empty()) return refusal;
  try {
    capture::recorded_config(info, layers);
  } catch (const FileError& error) {
    return fmt::format(
        "it goes by what the model does to queries and keys, which its recorded config does not tell ({}); "
        "capture with it",
        error.what());
  }
  return "";
}

std::vector<float> read_last_row_layer(const Recording& recording, const PolicyNeeds& needs, int run,
                                       int layer) {
  if (!needs.last_row_layer) return {};
  const auto info = recording.info();
  // All groups are of one size, so that the mean of their means is the mean over all query heads.
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(info->n_prompt());
  const int n_kv_heads = info->model.heads(layer).n_kv_heads;
  for (int head = 0; head < n_kv_heads; ++head) {
    const auto last = recording.trace(run, layer, head).attention_last;
    for (Eigen::Index i = 0; i < sum.size(); ++i) sum[i] += last[i];
  }
  return as_float(sum / n_kv_heads);
}

HeadSource read_head_source(const Recording& recording, const analysis::Policy& policy, int run, int layer,
                            int kv_head) {
  const auto info = recording.info();
  const PolicyNeeds needs = policy.needs();
  const std::int64_t n_prompt = info->n_prompt();
  HeadSource source;
  source.keys = recording.keys(run, layer, kv_head, 0, n_prompt);
  check_finite(source.keys, "keys", *info, run, layer, kv_head);
  if (needs.values) {
    source.values = recording.values(run, layer, kv_head, 0, n_prompt);
    check_finite(source.values, "values", *info, run, layer, kv_head);
  }
  if (needs.last_row_group || needs.attention_received) {
    recording::HeadTrace trace = recording.trace(run, layer, kv_head);
    if (needs.last_row_group) source.last_row_group = first(std::move(trace.attention_last), n_prompt);
    if (needs.attention_received) {
      source.attention_received = first(std::move(trace.attention_received), n_prompt);
      source.attention_queries = first(std::move(trace.attention_queries), n_prompt);
    }
  }
  if (policy.slots().weighs_values())
    source.value_norms = value_norms(recording, policy, {run, layer, kv_head});
  if (needs.window > 0) source.window_sums = window_sums(recording, *info, needs.window, run, layer, kv_head);
  if (needs.queries() || needs.rotation) add_queries(source, recording, needs, {run, layer, kv_head});
  return source;
}

}  // namespace keyscope::replay
