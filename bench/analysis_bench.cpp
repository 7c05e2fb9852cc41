// The analysis core, timed by itself; analysis_peer.py times the same work in NumPy and SciPy.

#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "analysis/pca.hpp"
#include "analysis/policies/registry.hpp"
#include "analysis/policies/row_selection.hpp"
#include "analysis/rank_correlation.hpp"
#include "analysis/similarity.hpp"
#include "analysis/spectrum.hpp"
#include "analysis/theorem_bounds.hpp"

namespace keyscope::analysis {
namespace {

constexpr Eigen::Index kHeadDim = 128;

// Keys around a common direction, as a head's are.
RowMatrixF draw_rows(Eigen::Index n_rows, double offset) {
  std::mt19937 generator(1);
  std::normal_distribution<double> normal;
  RowMatrixF rows(n_rows, kHeadDim);
  for (Eigen::Index i = 0; i < rows.size(); ++i)
    rows.data()[i] = static_cast<float>(normal(generator) + offset);
  return rows;
}

void score_keydiff(benchmark::State& state) {
  const RowMatrixF keys = draw_rows(state.range(0), 0.5);
  const std::vector<std::int32_t> positions(keys.rows());
  std::vector<double> scores(positions.size());
  const auto policy = make_policy(parse_policy("keydiff"), 0);
  const PolicyInput input{.keys = keys, .values = RowMatrixF(0, 0), .positions = positions};
  for ([[maybe_unused]] auto _ : state) {
    policy->score(input, scores);
    benchmark::DoNotOptimize(scores.data());
  }
  // Every key is read twice: once for the anchor, once for its cosine.
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * 2 * keys.size() * 4);
}
BENCHMARK(score_keydiff)->Arg(2176)->Arg(65536)->Unit(benchmark::kMillisecond);

void select_from_scores(benchmark::State& state) {
  const RowMatrixF keys = draw_rows(state.range(0) / kHeadDim + 1, 0);
  const std::vector<double> scores(keys.data(), keys.data() + state.range(0));
  const std::vector<std::uint8_t> forced(scores.size());
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(select_rows(scores, forced, state.range(0) - 128));
}
BENCHMARK(select_from_scores)->Arg(2176)->Unit(benchmark::kMillisecond);

void fit_pca(benchmark::State& state) {
  const RowMatrixF keys = draw_rows(state.range(0), 0.5);
  const RowMatrixF queries = draw_rows(3 * state.range(0), -0.2);
  const std::vector<MatrixView> blocks{keys, queries};
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(analysis::fit_pca(blocks, 3));
}
BENCHMARK(fit_pca)->Arg(2048)->Unit(benchmark::kMillisecond);

void log_volume(benchmark::State& state) {
  const RowMatrixF keys = draw_rows(state.range(0), 0.5);
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(analysis::log_volume(keys));
}
BENCHMARK(log_volume)->Arg(2048)->Unit(benchmark::kMillisecond);

void spearman(benchmark::State& state) {
  const RowMatrixF drawn = draw_rows(2 * state.range(0) / kHeadDim, 0);
  const std::vector<double> values(drawn.data(), drawn.data() + drawn.size());
  const std::span<const double> both(values);
  const auto n = static_cast<std::size_t>(state.range(0));
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(analysis::spearman(both.first(n), both.subspan(n, n)));
}
BENCHMARK(spearman)->Arg(8192)->Unit(benchmark::kMillisecond);

void cosine_matrix(benchmark::State& state) {
  const RowMatrixF keys = draw_rows(state.range(0), 0.5);
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(analysis::cosine_matrix(keys));
}
BENCHMARK(cosine_matrix)->Arg(2048)->Unit(benchmark::kMillisecond);

void mean_key_bounds(benchmark::State& state) {
  const RowMatrixF keys = draw_rows(state.range(0), 0.5);
  const RowMatrixF queries = draw_rows(2 * state.range(0), -0.2);
  const std::vector<std::int32_t> positions(queries.rows());
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(analysis::mean_key_bounds(keys, queries, positions, {.histograms = false}));
}
BENCHMARK(mean_key_bounds)->Arg(2048)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace keyscope::analysis
