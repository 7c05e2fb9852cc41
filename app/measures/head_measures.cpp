#include "app/measures/head_measures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "analysis/matrix_view.hpp"
#include "analysis/pca.hpp"
#include "analysis/rank_correlation.hpp"
#include "analysis/retained_set.hpp"
#include "analysis/similarity.hpp"
#include "analysis/spectrum.hpp"
#include "analysis/statistics.hpp"
#include "analysis/theorem_bounds.hpp"
#include "app/measures/attention_weights.hpp"
#include "app/measures/head_data.hpp"
#include "app/measures/quantisation_effect.hpp"
#include "base/errors.hpp"
#include "capture/model/recorded_attention.hpp"

namespace keyscope::measures {

std::optional<double> if_defined(double value) {
  return std::isnan(value) ? std::nullopt : std::optional<double>(value);
}

namespace {

using Eigen::VectorXd;

void correlate_scores(const VectorXd& cosines, const HeadData& head, HeadMeasures& measures) {
  const ScoreAgreement agreement = correlate(pair_score_attention(cosines, head.trace));
  measures.spearman = agreement.spearman;
  measures.spearman_total = agreement.spearman_total;
  measures.spearman_given_position = agreement.spearman_given_position;
  measures.kendall = agreement.kendall;
}

void measure_direction(const HeadData& head, const recording::Recording& recording,
                       const HeadSelection& selection, Parts parts, HeadMeasures& measures) {
  // Without a direction nothing is more or less alike.
  const VectorXd mean_key = analysis::mean_row(head.keys);
  if (head.keys.rows() == 0 || mean_key.norm() == 0) return;
  const VectorXd cosines = analysis::cosines_to(head.keys, mean_key);
  if (parts.has(Part::kAgreement)) {
    measures.mean_key_cosine = cosines.mean();
    correlate_scores(cosines, head, measures);
  }
  if (parts.has(Part::kExperts)) {
    const ExpertDifference experts =
        expert_difference(cosines, recording.routing(selection.run, selection.layer));
    measures.expert_epsilon_squared = experts.epsilon_squared;
    measures.expert_p_value = experts.p_value;
  }
  if (!parts.has(Part::kQueries)) return;
  const VectorXd mean_query = analysis::mean_row(head.queries);
  if (mean_query.norm() == 0) return;
  measures.key_query_mean_cosine = analysis::cosine(mean_key, mean_query);
  measures.top_key_query_cosine =
      analysis::cosine(head.keys.row(analysis::top_key(cosines)).cast<double>().transpose(), mean_query);
}

void measure_retained_keys(const RowMatrixF& keys, Parts parts, HeadMeasures& measures) {
  if (keys.rows() == 0) return;
  if (parts.has(Part::kVolume)) {
    const VectorXd squares = analysis::squared_singular_values(keys);
    const analysis::LogVolume volume = analysis::log_volume_of(keys, squares);
    measures.log_volume_nats = volume.log_volume_nats;
    measures.rank = volume.rank;
    measures.regularised_log_volume_nats = volume.regularised_log_volume_nats;
    const analysis::Spectrum spectrum = analysis::spectrum_of(squares);
    measures.participation_ratio = spectrum.participation_ratio;
    measures.effective_rank = spectrum.effective_rank;
  }
  if (parts.has(Part::kPairs)) {
    const analysis::PairwiseCosines cosines = analysis::pairwise_cosines(keys);
    measures.mean_pairwise_cosine = if_defined(cosines.mean);
    measures.cosine_objective = cosines.sum;
  }
}

// The finished run `none` in one head, with which others are compared: read, and attended to, once.
class FullCache {
 public:
  FullCache(const recording::Recording& recording, const recording::RecordingInfo& info, int layer,
            int kv_head)
      : recording_(recording), info_(info), layer_(layer), kv_head_(kv_head) {}

  // Over the tokens seen by then; null: there is no such run.
  const FullCacheData* over(std::int64_t n_seen, bool with_rows) {
    if (n_seen != n_seen_ || (with_rows && !with_rows_)) {
      data_ = read_full_cache(recording_, info_, {-1, layer_, kv_head_}, n_seen, with_rows);
      n_seen_ = n_seen;
      with_rows_ = with_rows;
      output_.reset();
    }
    return data_ ? &*data_ : nullptr;
  }

  // What its last queries take from all of its rows.
  const RowMatrixD& output() {
    if (!output_) output_ = output_of(*data_, all_positions(data_->n_seen));
    return *output_;
  }

  static std::vector<std::int32_t> all_positions(std::int64_t n) {
    std::vector<std::int32_t> all(n);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  static RowMatrixD output_of(const FullCacheData& full, std::span<const std::int32_t> rows) {
    return analysis::attend(full.queries, full.query_positions, full.keys, full.values, rows, full.rules);
  }

 private:
  const recording::Recording& recording_;
  const recording::RecordingInfo& info_;
  int layer_, kv_head_;
  std::int64_t n_seen_ = -1;
  bool with_rows_ = false;
  std::optional<FullCacheData> data_;
  std::optional<RowMatrixD> output_;
};

std::optional<double> attention_mass_kept(const FullCacheData& full, std::vector<std::int32_t> retained) {
  std::erase_if(retained, [&](std::int32_t position) { return position >= full.n_seen; });
  return if_defined(analysis::attention_mass_kept(full.attention_received, retained));
}

//   output: what the queries take from all rows
std::optional<double> output_error(const FullCacheData& full, const std::vector<std::int32_t>& spared,
                                   const RowMatrixD& output) {
  const bool all = std::ssize(spared) == full.n_seen;
  return if_defined(analysis::output_error(output, all ? output : FullCache::output_of(full, spared)));
}

// Of the entries that are known; NaN stands for what the run has not reached.
template <typename Entries>
std::optional<double> mean_of_known(const Entries& entries) {
  double sum = 0;
  std::int64_t n = 0;
  for (const double entry : entries)
    if (!std::isnan(entry)) {
      sum += entry;
      ++n;
    }
  return n > 0 ? std::optional<double>(sum / static_cast<double>(n)) : std::nullopt;
}

void measure_attention(const HeadData& head, const recording::AttentionStatistics& statistics, int kv_head,
                       int group_size, HeadMeasures& measures) {
  const auto& received = head.trace.attention_received;
  if (!received.empty() && head.trace.attention_queries.front() > 0)
    measures.sink_metric = received.front() / static_cast<double>(received.size());
  const Eigen::Index row = Eigen::Index{kv_head} * group_size;
  const auto first = static_cast<std::size_t>(row), n = static_cast<std::size_t>(group_size);
  if (statistics.entropy.rows() > 0) {
    const RowMatrixF entropy = statistics.entropy.middleRows(row, group_size);
    measures.attention_entropy_nats = mean_of_known(entropy.reshaped());
  }
  const auto mean = [&](const std::vector<double>& heads) {
    return heads.empty() ? std::nullopt : mean_of_known(std::span(heads).subspan(first, n));
  };
  measures.attention_gini = mean(statistics.gini);
  measures.attention_top_share = mean(statistics.top_share);
}

// The share of its queries' attention that the group's learned sinks took, over the prompt blocks done.
std::optional<double> learned_sink_share(const recording::RunInfo& run, const RowMatrixD& sums, int kv_head,
                                         int group_size) {
  if (sums.size() == 0) return std::nullopt;
  double taken = 0;
  std::int64_t n_queries = 0;
  for (Eigen::Index block = 0; block < sums.cols() && block < run.blocks_done; ++block) {
    const double sum = sums.col(block).segment(Eigen::Index{kv_head} * group_size, group_size).sum();
    if (std::isnan(sum)) break;
    taken += sum;
    n_queries = recording::tokens_seen(run, block);
  }
  if (n_queries == 0) return std::nullopt;
  return taken / static_cast<double>(n_queries * group_size);
}

// What the same rows would say if queries could attend to tokens alone.
void measure_without_sinks(const recording::Recording& recording, const HeadSelection& selection,
                           const HeadData& head, const FullCacheData& full,
                           const std::vector<std::int32_t>& spared, HeadMeasures& measures) {
  const auto info = recording.info();
  const HeadSelection of_full{full_cache_run(*info), selection.layer, selection.kv_head};
  std::vector<double> received = received_without_sinks(recording, of_full);
  if (const VectorXd mean = analysis::mean_row(head.keys);
      selection.run == of_full.run && head.keys.rows() > 0 && mean.norm() > 0) {
    recording::HeadTrace trace = head.trace;
    trace.attention_received = received;
    const ScoreAgreement agreement =
        correlate(pair_score_attention(analysis::cosines_to(head.keys, mean), trace));
    measures.spearman_without_sinks = agreement.spearman;
    measures.spearman_given_position_without_sinks = agreement.spearman_given_position;
  }
  FullCacheData sinkless = full;
  sinkless.attention_received.assign(received.begin(), received.begin() + full.n_seen);
  for (analysis::AttentionRules& rules : sinkless.rules)
    rules = capture::recorded_rules(*info, selection.layer);
  measures.attention_mass_kept_without_sinks = attention_mass_kept(sinkless, measures.retained);
  if (sinkless.queries.rows() > 0)
    measures.output_error_without_sinks = output_error(
        sinkless, spared, FullCache::output_of(sinkless, FullCache::all_positions(sinkless.n_seen)));
}

void measure_bounds(const HeadData& head, HeadMeasures& measures) {
  const auto bounds =
      analysis::mean_key_bounds(head.keys, head.queries, head.query_positions, {.histograms = false});
  measures.bound_pairs = bounds.pairs;
  measures.bound_pairs_causal = bounds.pairs_causal;
  measures.bound_violations = bounds.violations;
  if (bounds.sampled > 0) measures.bound_sampled = bounds.sampled;
  measures.bound_min_slack = if_defined(bounds.min_slack);
  measures.bound_min_slack_exact = if_defined(bounds.min_slack_exact);
}

void measure_pca(const HeadData& head, HeadMeasures& measures) {
  if (head.keys.cols() < 2) return;
  const std::array<MatrixView, 2> blocks{head.keys, head.queries};
  const analysis::Pca pca = analysis::fit_pca(blocks, 2);
  if (!std::isnan(pca.explained_ratio[0]))
    measures.pca_explained = std::vector<double>{pca.explained_ratio[0], pca.explained_ratio[1]};
}

constexpr Parts kOfKeys{Part::kAgreement,    Part::kQueries, Part::kExperts, Part::kVolume,      Part::kPairs,
                        Part::kWithoutSinks, Part::kPca,     Part::kBounds,  Part::kQuantisation};
constexpr Parts kOfQueries{Part::kQueries, Part::kPca, Part::kBounds};
constexpr Parts kOfDirection{Part::kAgreement, Part::kQueries, Part::kExperts};
constexpr Parts kOfRetainedKeys{Part::kVolume, Part::kPairs};
constexpr Parts kOfFullCache{Part::kMass, Part::kOutput, Part::kWithoutSinks};
constexpr Parts kOfFullRows{Part::kOutput, Part::kWithoutSinks};

void measure_against(FullCache& full_cache, const recording::Recording& recording,
                     const HeadSelection& selection, const HeadData& head, const BlockEnd& end, Parts parts,
                     HeadMeasures& measures) {
  const auto info = recording.info();
  const FullCacheData* full = full_cache.over(end.n_seen, parts.has_any(kOfFullRows));
  if (full == nullptr) return;
  if (parts.has(Part::kMass)) measures.attention_mass_kept = attention_mass_kept(*full, measures.retained);
  if (!parts.has_any(kOfFullRows)) return;
  const auto spared = spared_by_policy(run_of(*info, selection.run), head.trace.evicted_at, end, full->n_seen,
                                       full->rules.front().window);
  if (parts.has(Part::kOutput) && full->queries.rows() > 0)
    measures.output_error = output_error(*full, spared, full_cache.output());
  const bool can_weigh = info->keys && info->queries && info->heads.has(selection.kv_head);
  if (info->sinks && can_weigh && parts.has(Part::kWithoutSinks))
    measure_without_sinks(recording, selection, head, *full, spared, measures);
}

void measure(const recording::Recording& recording, const HeadSelection& selection, const HeadData& head,
             const BlockEnd& end, Parts parts, FullCache& full, HeadMeasures& measures) {
  const auto info = recording.info();
  measures.retained = recording::retained_positions(head.trace.evicted_at, end.n_seen, end.block);
  if (info->keys && info->heads.has(selection.kv_head)) {
    if (parts.has_any(kOfDirection)) measure_direction(head, recording, selection, parts, measures);
    if (parts.has_any(kOfRetainedKeys))
      measure_retained_keys(read_retained_keys(recording, *info, selection, head, measures.retained), parts,
                            measures);
  }
  if (parts.has_any(kOfFullCache)) measure_against(full, recording, selection, head, end, parts, measures);
  if (parts.has(Part::kQuantisation)) measure_quantisation(recording, *info, selection, head, end, measures);
  if (parts.has(Part::kAttention)) {
    const auto statistics = recording.statistics(selection.run, selection.layer);
    const int group_size = info->model.group_size(selection.layer);
    measure_attention(head, statistics, selection.kv_head, group_size, measures);
    measures.learned_sink_share =
        learned_sink_share(run_of(*info, selection.run), statistics.sink, selection.kv_head, group_size);
  }
  if (!parts.has(Part::kRetained)) measures.retained = {};
  if (head.keys.rows() == 0 || head.queries.rows() == 0) return;
  if (parts.has(Part::kPca)) measure_pca(head, measures);
  if (parts.has(Part::kBounds)) measure_bounds(head, measures);
}

}  // namespace

Part part_of(HeadValue measure) {
  using M = HeadMeasures;
  static constexpr std::array<std::pair<HeadValue, Part>, 31> kParts{{
      {&M::spearman, Part::kAgreement},
      {&M::spearman_total, Part::kAgreement},
      {&M::spearman_given_position, Part::kAgreement},
      {&M::kendall, Part::kAgreement},
      {&M::mean_key_cosine, Part::kAgreement},
      {&M::key_query_mean_cosine, Part::kQueries},
      {&M::top_key_query_cosine, Part::kQueries},
      {&M::log_volume_nats, Part::kVolume},
      {&M::regularised_log_volume_nats, Part::kVolume},
      {&M::participation_ratio, Part::kVolume},
      {&M::effective_rank, Part::kVolume},
      {&M::mean_pairwise_cosine, Part::kPairs},
      {&M::cosine_objective, Part::kPairs},
      {&M::attention_mass_kept, Part::kMass},
      {&M::output_error, Part::kOutput},
      {&M::attention_entropy_nats, Part::kAttention},
      {&M::attention_gini, Part::kAttention},
      {&M::attention_top_share, Part::kAttention},
      {&M::sink_metric, Part::kAttention},
      {&M::learned_sink_share, Part::kAttention},
      {&M::spearman_without_sinks, Part::kWithoutSinks},
      {&M::spearman_given_position_without_sinks, Part::kWithoutSinks},
      {&M::attention_mass_kept_without_sinks, Part::kWithoutSinks},
      {&M::output_error_without_sinks, Part::kWithoutSinks},
      {&M::expert_epsilon_squared, Part::kExperts},
      {&M::expert_p_value, Part::kExperts},
      {&M::quantised_key_error, Part::kQuantisation},
      {&M::quantised_key_cosine, Part::kQuantisation},
      {&M::quantised_score_spearman, Part::kQuantisation},
      {&M::quantised_retained_jaccard, Part::kQuantisation},
      {&M::quantised_attention_difference, Part::kQuantisation},
  }};
  const auto found = std::ranges::find(kParts, measure, &std::pair<HeadValue, Part>::first);
  return found != kParts.end() ? found->second : Part::kBounds;  // what is left: their slacks
}

std::vector<HeadMeasures> measure_head(const recording::Recording& recording, std::span<const Moment> moments,
                                       int layer, int kv_head, Parts parts) {
  const auto info = recording.info();
  std::vector<HeadMeasures> measured(moments.size());
  FullCache full(recording, *info, layer, kv_head);
  HeadData head;
  int read = -1;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    const HeadSelection selection{moments[i].run, layer, kv_head};
    if (i == 0 || selection.run != read)
      head = read_head(recording, *info, selection, parts.has_any(kOfQueries), parts.has_any(kOfKeys));
    read = selection.run;
    measured[i].layer = layer;
    measured[i].kv_head = kv_head;
    measure(recording, selection, head, find_block_end(*info, selection.run, moments[i].block), parts, full,
            measured[i]);
  }
  return measured;
}

HeadMeasures measure_head(const recording::Recording& recording, int run, int layer, int kv_head, Parts parts,
                          std::int64_t at_block) {
  const Moment moment{run, at_block};
  return std::move(measure_head(recording, {&moment, 1}, layer, kv_head, parts).front());
}

RunMeasures measure_run(const recording::Recording& recording, int run) {
  const auto info = recording.info();
  const recording::RunInfo& about = run_of(*info, run);
  RunMeasures measures;
  measures.run = about.plan.name;
  const int full = full_cache_run(*info);
  if (full < 0) return measures;
  const std::int64_t n_scored = info->runs[full].n_scored;
  if (n_scored == 0 || about.n_scored != n_scored) return measures;
  const RowMatrixF reference = recording.logits(full);
  try {
    const auto divergence =
        analysis::logit_divergence(reference, run == full ? reference : recording.logits(run));
    measures.kl_nats = divergence.kl_nats;
    measures.top1_agreement = divergence.top1_agreement;
  } catch (const InvalidInput& error) {
    throw FileError(fmt::format("{}: run {}: {}", info->source, about.plan.name, error.what()));
  }
  return measures;
}

HypothesisRun hypothesis_run(const recording::RecordingInfo& info, int run) {
  if (const int full = full_cache_run(info); full >= 0) return {full, false};
  return {run, run_of(info, run).plan.policy != "none"};
}

ScoreAttention pair_score_attention(const Eigen::VectorXd& key_cosines, const recording::HeadTrace& trace) {
  ScoreAttention pairs;
  for (std::size_t i = 0; i < trace.attention_received.size(); ++i) {
    pairs.score.push_back(-key_cosines[static_cast<Eigen::Index>(i)]);
    pairs.total.push_back(trace.attention_received[i]);
    if (trace.attention_queries[i] == 0) continue;
    pairs.seen.push_back(static_cast<std::int32_t>(i));
    pairs.seen_score.push_back(pairs.score.back());
    pairs.attention_per_query.push_back(trace.attention_received[i] / trace.attention_queries[i]);
  }
  return pairs;
}

ScoreAttention read_score_attention(const recording::Recording& recording, const HeadSelection& selection) {
  const HeadData head = read_head(recording, *recording.info(), selection);
  const Eigen::VectorXd mean = analysis::mean_row(head.keys);
  if (head.keys.rows() == 0 || mean.norm() == 0) return {};
  return pair_score_attention(analysis::cosines_to(head.keys, mean), head.trace);
}

ScoreAgreement correlate(const ScoreAttention& pairs) {
  using analysis::Ranked;
  const Ranked score(pairs.seen_score), attention(pairs.attention_per_query);
  const Ranked position(std::vector<double>(pairs.seen.begin(), pairs.seen.end()));
  std::optional<Ranked> of_all;  // where some were not seen
  if (pairs.seen.size() != pairs.score.size()) of_all.emplace(pairs.score);
  ScoreAgreement agreement;
  agreement.spearman = if_defined(analysis::spearman(score, attention).rho);
  agreement.spearman_total =
      if_defined(analysis::spearman(of_all ? *of_all : score, Ranked(pairs.total)).rho);
  agreement.spearman_given_position = if_defined(analysis::partial_spearman(score, attention, position).rho);
  agreement.kendall = if_defined(analysis::kendall(score, attention).tau);
  return agreement;
}

}  // namespace keyscope::measures
