#include "app/figures/head_measure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/retained_set.hpp"
#include "app/measures/head_data.hpp"
#include "base/errors.hpp"

namespace keyscope::figures {
namespace {

using measures::HeadMeasures;
using enum MeasureNeed;

constexpr auto kDiverging = ColourMap::kDiverging;
constexpr auto kViridis = ColourMap::kViridis;
constexpr const char *kAgreement = "Score and attention", *kDirection = "Directions of keys and queries",
                     *kRetained = "Retained keys", *kLoss = "What eviction costs",
                     *kShape = "Shape of attention";

constexpr std::array<HeadMeasure, 21> kMeasures{{
    {"spearman", "Spearman ρ", "", kAgreement,
     "rank correlation of −cos(key, mean key) with attention received per query", &HeadMeasures::spearman,
     kDiverging, 3, kKeys},
    {"spearman_given_position", "ρ given position", "", kAgreement,
     "the same with position held fixed, which explains part of every sum",
     &HeadMeasures::spearman_given_position, kDiverging, 3, kKeys},
    {"mean_key_cosine", "Mean cos(key, mean key)", "", kDirection, "how closely the keys point one way",
     &HeadMeasures::mean_key_cosine, kDiverging, 3, kKeys},
    {"key_query_mean_cosine", "cos(mean key, mean query)", "", kDirection,
     "below 0: keys and queries point apart", &HeadMeasures::key_query_mean_cosine, kDiverging, 3, kQueries},
    {"top_key_query_cosine", "cos(top key, mean query)", "", kDirection,
     "above 0: the key that KeyDiff scores highest points towards the queries",
     &HeadMeasures::top_key_query_cosine, kDiverging, 3, kQueries},
    {"log_volume_nats", "Log volume", "nats", kRetained,
     "diversity of the retained keys; larger is more diverse", &HeadMeasures::log_volume_nats, kViridis, 1,
     kKeys},
    {"mean_pairwise_cosine", "Redundancy", "", kRetained, "mean cosine between two different retained keys",
     &HeadMeasures::mean_pairwise_cosine, kDiverging, 3, kKeys},
    {"attention_mass_kept", "Attention mass kept", "", kLoss,
     "share of full-cache attention on the retained keys", &HeadMeasures::attention_mass_kept, kViridis, 3,
     kFullCache},
    {"retained_overlap", "Overlap of retained sets", "", kLoss,
     "Jaccard |A ∩ B| / |A ∪ B| with another run's retained tokens", nullptr, kViridis, 3, kReference},
    {"output_error", "Output error", "", kLoss,
     "relative error of attention's output of the last queries, retained rows against all",
     &HeadMeasures::output_error, kViridis, 3, kFullCacheValues},
    {"spearman_total", "ρ with the sum", "", kAgreement, "the same with the plain sum of attention received",
     &HeadMeasures::spearman_total, kDiverging, 3, kKeys},
    {"kendall", "Kendall τ-b", "", kAgreement, "as Spearman ρ, by the share of pairs in the same order",
     &HeadMeasures::kendall, kDiverging, 3, kKeys},
    {"regularised_log_volume_nats", "Regularised log volume", "nats", kRetained,
     "log det of I + the Gram matrix of the retained keys at unit norm",
     &HeadMeasures::regularised_log_volume_nats, kViridis, 1, kKeys},
    {"participation_ratio", "Participation ratio", "dimensions", kRetained,
     "(Σσ²)² / Σσ⁴: how many directions share the retained keys' variance",
     &HeadMeasures::participation_ratio, kViridis, 2, kKeys},
    {"effective_rank", "Effective rank", "dimensions", kRetained,
     "exp of the entropy of the retained keys' spectrum", &HeadMeasures::effective_rank, kViridis, 2, kKeys},
    {"cosine_objective", "Σ cos over pairs", "", kRetained,
     "what Eq. A.2 minimises over all sets of this size", &HeadMeasures::cosine_objective, kViridis, 0,
     kKeys},
    {"attention_entropy_nats", "Attention entropy", "nats", kShape,
     "of each query's weights, mean over the prompt; high: diffuse", &HeadMeasures::attention_entropy_nats,
     kViridis, 2, kAttention},
    {"attention_gini", "Attention Gini", "", kShape,
     "how unequally positions receive attention; 1: one has it all", &HeadMeasures::attention_gini, kViridis,
     3, kAttention},
    {"attention_top_share", "Share of the top 1 %", "", kShape,
     "attention on the 1 % of positions that receive most", &HeadMeasures::attention_top_share, kViridis, 3,
     kAttention},
    {"sink_metric", "First token's share", "", kShape,
     "mean weight of a query on the first token: how strong a sink it is", &HeadMeasures::sink_metric,
     kViridis, 3, kAttention},
    {"learned_sink_share", "Learned sinks' share", "", kShape,
     "share of its queries' attention that the heads' learned sinks took, and no token",
     &HeadMeasures::learned_sink_share, kViridis, 3, kSinks},
}};

// What is drawn where every value is the same.
constexpr double kLeastHalfRange = 1e-6;

}  // namespace

bool HeadMeasure::of_hypothesis() const {
  return std::ranges::find(measures::kBiasedMeasures, id) != measures::kBiasedMeasures.end();
}

std::span<const HeadMeasure> head_measures() { return kMeasures; }

const HeadMeasure& find_head_measure(std::string_view id) {
  const auto found = std::ranges::find(kMeasures, id, &HeadMeasure::id);
  if (found != kMeasures.end()) return *found;
  std::vector<std::string_view> ids;
  ids.reserve(kMeasures.size());
  for (const HeadMeasure& measure : kMeasures) ids.emplace_back(measure.id);
  throw UsageError(fmt::format("there is no measure '{}'; measures: {}", id, fmt::join(ids, ", ")));
}

std::optional<double> head_value(const HeadMeasure& measure, const HeadMeasures& head,
                                 const HeadMeasures* reference) {
  if (measure.of_two_runs()) {
    if (reference == nullptr) return std::nullopt;
    const double overlap = analysis::jaccard(head.retained, reference->retained);
    return std::isnan(overlap) ? std::nullopt : std::optional(overlap);
  }
  const auto value = head.*measure.value;
  if (reference == nullptr) return value;
  const auto other = reference->*measure.value;
  return value && other ? std::optional(*value - *other) : std::nullopt;
}

measures::Part part_of_measure(const HeadMeasure& measure) {
  return measure.of_two_runs() ? measures::Part::kRetained : measures::part_of(measure.value);
}

std::string missing_reason(const recording::RecordingInfo& info, const HeadMeasure& measure, int kv_head) {
  const bool of_keys = measure.need == kKeys || measure.need == kQueries;
  if (of_keys && !(info.keys && info.heads.has(kv_head))) return "its keys were not recorded";
  if (measure.need == kQueries && !info.queries) return "its queries were not recorded";
  const bool of_full_cache = measure.need == kFullCache || measure.need == kFullCacheValues;
  if (of_full_cache && measures::full_cache_run(info) < 0) return "there is no finished run `none`";
  if (measure.need == kFullCacheValues && !(info.keys && info.queries && info.values))
    return "it needs recorded keys, queries and values";
  if (measure.need == kFullCacheValues && !info.heads.has(kv_head)) return "its values were not recorded";
  if (measure.need == kAttention) return "attention's shape was not recorded";
  if (measure.need == kSinks)
    return info.sinks ? "it is not known yet" : "the model's heads have no learned sinks";
  if (measure.need == kReference) return "there is no other run to compare with";
  return "it does not exist: constant input, or an empty set";
}

std::string compared_runs(const HeadMeasure& measure, std::string_view run, std::string_view reference) {
  if (reference.empty()) return std::string(run);
  return fmt::format("{} {} {}", run, measure.of_two_runs() ? "and" : "−", reference);
}

MeasureScale measure_scale(const HeadMeasure& measure, std::span<const std::optional<double>> values,
                           std::string_view run, std::string_view reference) {
  MeasureScale scale;
  const bool difference = !reference.empty() && !measure.of_two_runs();
  scale.colour_map = difference ? ColourMap::kDiverging : measure.colour_map;
  scale.name = measure.label;
  if (!reference.empty()) scale.name += ", " + compared_runs(measure, run, reference);
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto& value : values) {
    if (!value || !std::isfinite(*value)) continue;
    low = std::min(low, *value);
    high = std::max(high, *value);
  }
  if (low > high) low = 0, high = 1;
  if (scale.colour_map == ColourMap::kDiverging) {
    high = std::max({std::abs(low), std::abs(high), kLeastHalfRange});
    low = -high;
  } else if (high - low < 2 * kLeastHalfRange) {
    low -= 0.5;
    high += 0.5;
  }
  scale.low = low;
  scale.high = high;
  return scale;
}

}  // namespace keyscope::figures
