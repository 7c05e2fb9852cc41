#include "app/figures/score_attention.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "analysis/rank_correlation.hpp"
#include "app/figures/axis_ticks.hpp"
#include "app/figures/head_selection.hpp"
#include "app/measures/score_attention.hpp"

namespace keyscope::figures {
namespace {

using measures::ScoreAgreement;
using measures::ScoreAttention;
using recording::RunInfo;

PointSeries series_of(const char* id, Colour colour, Marker marker, std::size_t n_tokens) {
  PointSeries series;
  series.id = series.label = id;
  series.colour = colour;
  series.marker = marker;
  series.size_px = n_tokens <= 500 ? 5.0F : (n_tokens <= 4000 ? 3.5F : 2.5F);
  return series;
}

struct Coordinates {
  std::vector<double> x, y;  // y is not finite where there is nothing to draw
};

Coordinates place_tokens(const ScoreAttention& pairs, bool ranks) {
  if (ranks)
    return {analysis::average_ranks(pairs.seen_score), analysis::average_ranks(pairs.attention_per_query)};
  Coordinates places{pairs.seen_score, pairs.attention_per_query};
  for (double& attention : places.y) attention = std::log10(attention);
  return places;
}

// Evicted rings first, so that the retained discs lie on top of them.
void add_tokens(Panel& panel, const ScoreAttention& pairs, const Coordinates& places,
                const std::vector<std::int32_t>& retained) {
  PointSeries evicted = series_of("evicted", kOrange, Marker::kRing, pairs.seen.size());
  PointSeries kept = series_of("retained", kBlue, Marker::kDisc, pairs.seen.size());
  for (std::size_t i = 0; i < pairs.seen.size(); ++i) {
    if (!std::isfinite(places.y[i])) continue;
    PointSeries& series = std::ranges::binary_search(retained, pairs.seen[i]) ? kept : evicted;
    series.x.push_back(static_cast<float>(places.x[i]));
    series.y.push_back(static_cast<float>(places.y[i]));
    series.token.push_back(pairs.seen[i]);
  }
  if (evicted.x.empty()) {  // one kind of point needs no legend
    evicted.label.clear();
    kept.label.clear();
  }
  panel.points.push_back(std::move(evicted));
  panel.points.push_back(std::move(kept));
}

std::string number(const std::optional<double>& value) {
  return value ? format_signed(*value, 2) : "undefined";
}

std::string note_of(const Panel& panel, const ScoreAttention& pairs) {
  const std::size_t drawn = panel.points[0].x.size() + panel.points[1].x.size();
  if (drawn == pairs.seen.size()) return "";
  return fmt::format("{} of {} keys received attention", format_count(static_cast<long long>(drawn)),
                     format_count(static_cast<long long>(pairs.seen.size())));
}

}  // namespace

Figure score_attention_figure(const recording::Recording& recording,
                              const ScoreAttentionSelection& selection) {
  const auto info = recording.info();
  require_run(*info, selection.run);
  require_layer(*info, selection.layer);
  require_kv_head(*info, selection.kv_head);
  require_keys(*info);
  const RunInfo& run = info->runs[static_cast<std::size_t>(selection.run)];
  const std::int64_t block = resolve_block(run, -1);
  const ScoreAttention pairs =
      measures::read_score_attention(recording, {selection.run, selection.layer, selection.kv_head});
  const ScoreAgreement agreement = measures::correlate(pairs);
  const auto evicted_at = recording.trace(selection.run, selection.layer, selection.kv_head).evicted_at;

  Panel panel;
  panel.id = "score_attention";
  panel.x.label = selection.ranks ? "rank of KeyDiff's score" : "KeyDiff's score −cos(key, mean key)";
  panel.y.label =
      selection.ranks ? "rank of attention per query" : "log₁₀ of attention per query that could see the key";
  add_tokens(panel, pairs, place_tokens(pairs, selection.ranks),
             recording::retained_positions(evicted_at, tokens_seen_by(run, block), block));
  panel.note = selection.brief ? fmt::format("ρ {} ({})", number(agreement.spearman),
                                             number(agreement.spearman_given_position))
                               : note_of(panel, pairs);

  Figure figure;
  figure.name = "score-attention";
  figure.title = fmt::format(
      "Score against attention, layer {}, KV head {}: ρ = {}, with position held fixed {}", selection.layer,
      selection.kv_head, number(agreement.spearman), number(agreement.spearman_given_position));
  figure.view = {{run.plan.name}, selection.layer, selection.kv_head, -1, -1, 0};
  figure.caption = fmt::format("{}. Every prompt token that a query could see; ρ is Spearman's.",
                               describe_run(*info, run));
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace keyscope::figures
