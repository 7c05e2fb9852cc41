#include "app/figures/attention_weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "analysis/errors.hpp"

namespace keyscope::figures {
namespace {

using recording::Recording;
using recording::RecordingInfo;
using recording::RunInfo;

[[noreturn]] void refuse(const RecordingInfo& info, std::string_view reason) {
  throw FileError(
      fmt::format("{}: attention was not recorded and cannot be recomputed: {}; capture with --record "
                  "keys,queries,attention",
                  info.source, reason));
}

bool is_number(const nlohmann::json& config, const char* key) {
  return config.contains(key) && config[key].is_number();
}

// What the logits are multiplied with; refuses models whose attention is more than a softmax over the cache.
double attention_scale(const RecordingInfo& info, std::int64_t n_tokens) {
  auto config = nlohmann::json::parse(info.model.config, nullptr, false);
  if (config.is_object() && config.contains("text_config")) config = config["text_config"];
  double per_dim = info.model.head_dim;
  if (config.is_object()) {
    if (is_number(config, "attn_logit_softcapping")) refuse(info, "the model soft-caps its attention logits");
    const bool window_used = !config.contains("use_sliding_window") || config["use_sliding_window"] == true;
    if (window_used && is_number(config, "sliding_window") &&
        config["sliding_window"].get<double>() < static_cast<double>(n_tokens))
      refuse(info, "the model has sliding-window layers shorter than the run");
    if (is_number(config, "query_pre_attn_scalar")) per_dim = config["query_pre_attn_scalar"].get<double>();
  }
  return 1 / std::sqrt(per_dim);
}

std::int32_t block_of(const RunInfo& run, std::int64_t position) {
  const auto after = std::ranges::upper_bound(run.block_start, position);
  return static_cast<std::int32_t>(after - run.block_start.begin()) - 1;
}

// Softmax in place over the row's entries that are not NaN, in float64.
void softmax_visible(Eigen::Ref<Eigen::RowVectorXf> row) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const float logit : row)
    if (!std::isnan(logit)) largest = std::max(largest, static_cast<double>(logit));
  for (const float logit : row)
    if (!std::isnan(logit)) sum += std::exp(logit - largest);
  for (float& entry : row)
    if (!std::isnan(entry)) entry = static_cast<float>(std::exp(entry - largest) / sum);
}

}  // namespace

void blank_invisible(RowMatrixF& weights, std::int64_t first, const RunInfo& run,
                     std::span<const std::int32_t> evicted_at) {
  for (Eigen::Index r = 0; r < weights.rows(); ++r) {
    const std::int64_t query = first + r;
    const std::int32_t block = block_of(run, query);
    for (Eigen::Index key = 0; key < weights.cols(); ++key) {
      const bool known = key <= query && key < static_cast<Eigen::Index>(evicted_at.size());
      const std::int32_t evicted = known ? evicted_at[static_cast<std::size_t>(key)] : 0;
      const bool visible = known && (evicted < 0 || evicted >= block);
      if (!visible) weights(r, key) = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

RowMatrixF recompute_attention(const Recording& recording, int run, int layer, int query_head,
                               std::int64_t first, std::int64_t count) {
  const auto info = recording.info();
  if (!info->keys || !info->queries)
    refuse(*info, "queries and keys are needed for that, and not both were recorded");
  const std::int64_t n_keys = first + count;
  const double scale = attention_scale(*info, n_keys);
  const int kv_head = query_head / info->model.group_size();
  const RowMatrixF queries = recording.queries(run, layer, query_head, first, count);
  const RowMatrixF keys = recording.keys(run, layer, kv_head, 0, n_keys);
  RowMatrixF weights = static_cast<float>(scale) * (queries * keys.transpose());
  blank_invisible(weights, first, info->runs[run], recording.trace(run, layer, kv_head).evicted_at);
  for (Eigen::Index r = 0; r < weights.rows(); ++r) softmax_visible(weights.row(r));
  return weights;
}

}  // namespace keyscope::figures
