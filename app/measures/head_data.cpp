#include "app/measures/head_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/matrix_view.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/model/config.hpp"
#include "capture/model/model.hpp"
#include "capture/model/recorded_attention.hpp"

namespace keyscope::measures {

namespace {

using recording::Recording;
using recording::RecordingInfo;
using recording::RunInfo;

void check_finite(const MatrixView& rows, const RecordingInfo& info, const HeadSelection& head,
                  std::string_view what) {
  try {
    analysis::require_finite(rows, what);
  } catch (const InvalidInput& error) {
    throw FileError(fmt::format("{}: run {}, layer {}, KV head {}: {}", info.source,
                                info.runs[head.run].plan.name, head.layer, head.kv_head, error.what()));
  }
}

// Queries [first, end) of every query head of the group, head after head, with their positions.
RowMatrixF read_group_queries(const Recording& recording, const RecordingInfo& info,
                              const HeadSelection& head, std::int64_t first, std::int64_t end,
                              std::vector<std::int32_t>& positions) {
  const int group_size = info.model.group_size(head.layer);
  RowMatrixF queries = recording.group_queries(head.run, head.layer, head.kv_head, first, end - first);
  positions.reserve(static_cast<std::size_t>(queries.rows()));
  for (int g = 0; g < group_size; ++g)
    for (std::int64_t i = first; i < end; ++i) positions.push_back(static_cast<std::int32_t>(i));
  check_finite(queries, info, head, "queries");
  return queries;
}

// M of the output error: how many of the last prompt positions were scored.
std::int64_t score_last(const RecordingInfo& info, const RunInfo& full) {
  if (full.n_scored > 0) return full.n_scored;
  const auto options = parse_json(info.provenance.configuration);
  if (options.is_object() && options.contains("score_last") && options["score_last"].is_number_integer())
    if (const auto n = options["score_last"].get<std::int64_t>(); n > 0) return n;
  return 32;
}

void check_trace(const recording::HeadTrace& trace, std::int64_t n_tokens, const RecordingInfo& info) {
  const auto n = static_cast<std::size_t>(n_tokens);
  if (trace.evicted_at.size() < n || trace.attention_received.size() < n ||
      trace.attention_queries.size() < n)
    throw FileError(fmt::format("{}: evictions or attention of {} tokens, but {} were seen", info.source,
                                trace.evicted_at.size(), n_tokens));
  for (std::size_t i = 0; i < n; ++i)
    if (!std::isfinite(trace.attention_received[i]))
      throw FileError(fmt::format("{}: attention_received of token {} is {}", info.source, i,
                                  trace.attention_received[i]));
}

}  // namespace

const RunInfo& run_of(const RecordingInfo& info, int run) {
  if (run < 0 || static_cast<std::size_t>(run) >= info.runs.size())
    throw FileError(fmt::format("{}: there is no run {}; it has {}", info.source, run, info.runs.size()));
  return info.runs[run];
}

int full_cache_run(const RecordingInfo& info) {
  int found = -1;
  for (std::size_t i = info.runs.size(); i-- > 0;) {
    const RunInfo& run = info.runs[i];
    if (run.plan.policy != "none" || run.n_tokens < info.n_prompt() || info.n_prompt() == 0) continue;
    const bool better =
        found < 0 || !run.plan.cache_format.quantises() || info.runs[found].plan.cache_format.quantises();
    if (better) found = static_cast<int>(i);
  }
  return found;
}

BlockEnd find_block_end(const RecordingInfo& info, int run, std::int64_t at_block) {
  const RunInfo& about = run_of(info, run);
  if (at_block >= about.blocks_done)
    throw InvalidInput(
        fmt::format("run {}: block {} of {} that were done", about.plan.name, at_block, about.blocks_done));
  BlockEnd end;
  end.block = at_block < 0 ? std::min(about.plan.n_prompt_blocks, about.blocks_done) - 1 : at_block;
  end.n_seen = recording::tokens_seen(about, end.block);
  return end;
}

std::vector<std::int32_t> spared_by_policy(const RunInfo& run, const std::vector<std::int32_t>& evicted_at,
                                           const BlockEnd& end, std::int64_t n_seen, std::int64_t window) {
  std::vector<std::int32_t> spared;
  for (std::int32_t position = 0; position < n_seen; ++position) {
    const std::int32_t at = evicted_at[position];
    const bool retained = at < 0 || at > end.block;
    const bool passed = !retained && window > 0 && recording::tokens_seen(run, at) - position >= window;
    if (retained || passed) spared.push_back(position);
  }
  return spared;
}

HeadData read_head(const Recording& recording, const RecordingInfo& info, const HeadSelection& selection,
                   bool with_queries, bool with_keys) {
  const RunInfo& about = run_of(info, selection.run);
  const std::int64_t n_seen = std::min(info.n_prompt(), about.n_tokens);
  HeadData head;
  head.trace = recording.trace(selection.run, selection.layer, selection.kv_head);
  check_trace(head.trace, about.n_tokens, info);
  head.trace.attention_received.resize(n_seen);
  head.trace.attention_queries.resize(n_seen);
  if (n_seen == 0 || !info.heads.has(selection.kv_head)) return head;
  if (info.keys && with_keys) {
    head.keys = recording.keys(selection.run, selection.layer, selection.kv_head, 0, n_seen);
    check_finite(head.keys, info, selection, "keys");
  }
  if (info.queries && with_queries)
    head.queries = read_group_queries(recording, info, selection, 0, n_seen, head.query_positions);
  else
    head.queries.resize(0, head.keys.cols());
  return head;
}

RowMatrixF read_retained_keys(const Recording& recording, const RecordingInfo& info,
                              const HeadSelection& selection, const HeadData& head,
                              const std::vector<std::int32_t>& retained) {
  const bool past_prompt = !retained.empty() && retained.back() >= head.keys.rows();
  const RowMatrixF all = past_prompt ? recording.keys(selection.run, selection.layer, selection.kv_head, 0,
                                                      retained.back() + std::int64_t{1})
                                     : RowMatrixF();
  const RowMatrixF& from = past_prompt ? all : head.keys;
  RowMatrixF keys(static_cast<Eigen::Index>(retained.size()), from.cols());
  for (std::size_t i = 0; i < retained.size(); ++i)
    keys.row(static_cast<Eigen::Index>(i)) = from.row(retained[i]);
  if (past_prompt) check_finite(keys, info, selection, "retained keys");
  return keys;
}

std::optional<FullCacheData> read_full_cache(const Recording& recording, const RecordingInfo& info,
                                             const HeadSelection& selection, std::int64_t n_seen,
                                             bool with_rows) {
  const HeadSelection head{full_cache_run(info), selection.layer, selection.kv_head};
  if (head.run < 0) return std::nullopt;
  const RunInfo& about = run_of(info, head.run);
  FullCacheData full;
  full.n_seen = std::min(n_seen, info.n_prompt());
  const recording::HeadTrace trace = recording.trace(head.run, head.layer, head.kv_head);
  check_trace(trace, full.n_seen, info);
  full.attention_received.assign(trace.attention_received.begin(),
                                 trace.attention_received.begin() + full.n_seen);
  full.rules = capture::group_rules(recording, info, head.run, head.layer, head.kv_head);
  const bool has_rows =
      with_rows && info.keys && info.queries && info.values && info.heads.has(selection.kv_head);
  if (!has_rows || full.n_seen == 0) return full;

  full.keys = recording.keys(head.run, head.layer, head.kv_head, 0, full.n_seen);
  full.values = recording.values(head.run, head.layer, head.kv_head, 0, full.n_seen);
  check_finite(full.keys, info, head, "keys");
  check_finite(full.values, info, head, "values");
  const std::int64_t first = std::max<std::int64_t>(0, full.n_seen - score_last(info, about));
  full.queries = read_group_queries(recording, info, head, first, full.n_seen, full.query_positions);
  return full;
}

namespace {

using Eigen::Index;

// In place: rotates one row, or takes a rotation back. Cosines and sines may carry a common factor.
void turn(Eigen::Ref<Eigen::RowVectorXf> row, const capture::ModelConfig& config, const float* cosines,
          const float* sines, bool back) {
  const Index half = config.rotary_dim / 2;
  const Index step = config.interleaved_rotation ? 2 : 1, apart = config.interleaved_rotation ? 1 : half;
  for (Index i = 0; i < half; ++i) {
    float &first = row[step * i], &second = row[step * i + apart];
    const float x = first, y = second, c = cosines[i], s = sines[i];
    const float factor = back ? 1 / (c * c + s * s) : 1, signed_s = back ? -s : s;
    first = (x * c - y * signed_s) * factor;
    second = (y * c + x * signed_s) * factor;
  }
}

}  // namespace

PlacedKeys::PlacedKeys(const recording::Recording& recording, int run, int layer, int kv_head,
                       RowMatrixF keys)
    : layer_(layer), kv_head_(kv_head), unrotated_(std::move(keys)) {
  const auto info = recording.info();
  run_ = info->runs[run];
  config_ = capture::parse_config(info->model.config, info->source);
  for (int head = 0; head < info->model.heads(layer).n_kv_heads; ++head)
    evicted_at_.push_back(recording.trace(run, layer, head).evicted_at);
  for (std::int64_t block = 0; block < run_.blocks_done && first_of(block) < unrotated_.rows(); ++block)
    unrotated_ = turned(unrotated_, block, first_of(block), true);
}

RowMatrixF PlacedKeys::met_by(std::int64_t block) const { return turned(unrotated_, block, 0, false); }

std::int64_t PlacedKeys::first_of(std::int64_t block) const { return run_.block_start[block]; }

std::int64_t PlacedKeys::end_of(std::int64_t block) const {
  return block + 1 < run_.blocks_done ? first_of(block + 1) : run_.n_tokens;
}

// Positions of the rows that a head had in a block, the block's own last: the place of each is its index.
std::vector<std::int32_t> PlacedKeys::present(const std::vector<std::int32_t>& evicted_at,
                                              std::int64_t block) const {
  auto positions = recording::retained_positions(evicted_at, first_of(block), block - 1);
  const std::size_t n_old = positions.size();
  positions.resize(n_old + end_of(block) - first_of(block));
  std::iota(positions.begin() + static_cast<std::ptrdiff_t>(n_old), positions.end(),
            static_cast<std::int32_t>(first_of(block)));
  return positions;
}

// Turns the rows from position `from` on that were there in a block by the places they had in it. Going
// forward, rows that were not there become zero; going back, they stay as they are.
RowMatrixF PlacedKeys::turned(const RowMatrixF& keys, std::int64_t block, std::int64_t from,
                              bool back) const {
  std::size_t largest = 0;  // of any head: where frequencies depend on the length, it is this one
  for (const auto& evicted_at : evicted_at_) largest = std::max(largest, present(evicted_at, block).size());
  const auto angles = capture::rotary_angles(config_, static_cast<std::int64_t>(largest));
  const float *cosines = angles.cos.data(), *sines = angles.sin.data();
  RowMatrixF result = back ? keys : RowMatrixF::Zero(keys.rows(), keys.cols());
  const auto positions = present(evicted_at_[kv_head_], block);
  const std::int64_t half = config_.rotary_dim / 2;
  for (std::size_t place = 0; place < positions.size(); ++place) {
    const Index position = positions[place];
    if (position < from || position >= keys.rows()) continue;
    result.row(position) = keys.row(position);
    const std::int64_t at = static_cast<std::int64_t>(place) * half;
    if (config_.rotates(layer_)) turn(result.row(position), config_, cosines + at, sines + at, back);
  }
  return result;
}

}  // namespace keyscope::measures
