#include "capture/model/recorded_attention.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::capture {

using recording::RecordingInfo;

analysis::AttentionRules recorded_rules(const RecordingInfo& info, int layer) {
  try {
    const ModelConfig config = parse_config(info.model.config, info.source);
    if (layer < config.n_layers) return attention_rules(config, layer);
  } catch (const FileError&) {
    // Recordings may come from elsewhere, and hold no configuration or one of a family that is not known.
  }
  return {.scale = 1 / std::sqrt(static_cast<double>(info.model.heads(layer).head_dim))};
}

std::vector<analysis::AttentionRules> group_rules(const recording::Recording& recording,
                                                  const RecordingInfo& info, int run, int layer,
                                                  int kv_head) {
  const auto group = static_cast<std::size_t>(info.model.group_size(layer));
  std::vector<analysis::AttentionRules> rules(group, recorded_rules(info, layer));
  if (!info.sinks) return rules;
  const std::vector<float> sinks = recording.sink_logits(run, layer);
  const std::size_t first = static_cast<std::size_t>(kv_head) * group;
  if (sinks.size() < first + group)
    throw FileError(fmt::format(
        "{}: run {}, layer {}: sink_logit holds no scores of the heads' learned sinks, without which their "
        "attention cannot be told; capture it again",
        info.source, info.runs[run].plan.name, layer));
  for (std::size_t g = 0; g < group; ++g) rules[g].sink = sinks[first + g];
  return rules;
}

ModelConfig recorded_config(const RecordingInfo& info, std::span<const int> layers) {
  ModelConfig config = parse_config(info.model.config, info.source);
  const auto fits = [&](int layer) {
    return layer < config.n_layers && config.n_heads == info.model.n_heads &&
           config.heads(layer) == info.model.heads(layer);
  };
  if (config.latent.rank > 0 && !std::ranges::all_of(layers, fits))
    expand_keys(config);  // as --expand-keys does
  const auto other = std::ranges::find_if_not(layers, fits);
  if (other == layers.end()) return config;
  const HeadShape recorded = info.model.heads(*other);
  throw FileError(fmt::format(
      "{}: the model's config has {} layers with {} query heads for {} KV heads of {}; layer {} was "
      "recorded with {} for {} of {}",
      info.source, config.n_layers, config.n_heads, config.n_kv_heads, config.head_dim, *other,
      info.model.n_heads, recorded.n_kv_heads, recorded.head_dim));
}

RecordedRope::RecordedRope(const RecordingInfo& info, int run, int layer)
    : config_(recorded_config(info, {&layer, 1})),
      turns_(config_.rotates(layer)),
      local_(config_.rotates_locally(layer)),
      frequencies_(config_, local_),
      block_start_(info.runs[run].block_start),
      n_prompt_(info.n_prompt()) {
  if (!turns_) return;
  const std::vector<float> usual = frequencies_.of(1);
  rotation_ = {{usual.begin(), usual.end()}, config_.interleaved_rotation};
}

// What had been read with the last token of a prompt token's block.
std::int64_t RecordedRope::length_seen(std::int64_t position) const {
  const auto next = std::ranges::upper_bound(block_start_, position);
  return next == block_start_.end() ? n_prompt_ : std::min<std::int64_t>(*next, n_prompt_);
}

// What a turned query was multiplied by.
double RecordedRope::growth(std::int64_t position) const {
  const double factor = local_ ? 1 : config_.rope_scaling.attention_factor;
  const double lengths = std::floor(static_cast<double>(position) / config_.query_growth_length);
  return factor * (1 + config_.query_growth * std::log(1 + lengths));
}

// Angles are rounded to float32, as the model's are.
RowMatrixF RecordedRope::unrotated(const MatrixView& queries, std::int64_t first) const {
  RowMatrixF rows = queries;
  if (!turns_) return rows;
  std::vector<float> frequencies;
  std::int64_t length = -1;
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    const std::int64_t position = first + i, seen = length_seen(position);
    if (seen != length) frequencies = frequencies_.of(length = seen);
    const double shrink = 1 / growth(position);
    for (std::int64_t pair = 0; pair < rotation_.n_pairs(); ++pair) {
      const float angle = static_cast<float>(position) * frequencies[pair];
      const double c = shrink * std::cos(double{angle}), s = shrink * std::sin(double{angle});
      float& x = rows(i, rotation_.first_of(pair));
      float& y = rows(i, rotation_.second_of(pair));
      const double turned = c * x + s * y;
      y = static_cast<float>(c * y - s * x);
      x = static_cast<float>(turned);
    }
  }
  return rows;
}

}  // namespace keyscope::capture
