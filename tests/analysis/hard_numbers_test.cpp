// What every measure makes of numbers that are none, vanish or are huge: docs/numbers.md.

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/dendrogram.hpp"
#include "analysis/kruskal_wallis.hpp"
#include "analysis/pca.hpp"
#include "analysis/policies/qfilters.hpp"
#include "analysis/quick_cosines.hpp"
#include "analysis/rank_correlation.hpp"
#include "analysis/relaxation_gap.hpp"
#include "analysis/retained_set.hpp"
#include "analysis/row_quantisation.hpp"
#include "analysis/sign_flips.hpp"
#include "analysis/similarity.hpp"
#include "analysis/spectrum.hpp"
#include "analysis/statistics.hpp"
#include "analysis/theorem_bounds.hpp"
#include "tests/support/numbers_page.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Numbers = std::vector<double>;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A measure of rows, with everything that it returns in one list.
struct RowMeasure {
  std::string name;
  Numbers (*of)(const RowMatrixF&);
};

Numbers listed(const RowMatrixD& matrix) { return {matrix.data(), matrix.data() + matrix.size()}; }

Numbers bounds_of(const RowMatrixF& rows) {
  std::vector<std::int32_t> positions(rows.rows());
  std::iota(positions.begin(), positions.end(), 0);
  const PairBounds bounds = pair_bounds(rows, -rows, positions);
  Numbers all{static_cast<double>(bounds.theorem.violations),
              static_cast<double>(bounds.lemma.always.violations)};
  if (bounds.theorem.pairs > 0) all.push_back(bounds.theorem.min_slack);
  if (bounds.lemma.pairs > 0) all.push_back(bounds.lemma.always.min_slack);
  return all;
}

Numbers attended(const RowMatrixF& rows) {
  std::vector<std::int32_t> positions(rows.rows());
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<AttentionRules> rules(1);
  const RowMatrixD full = attend(rows, positions, rows, rows, positions, rules);
  Numbers all = listed(full);
  all.push_back(output_error(full, full));
  return all;
}

Numbers quick(const RowMatrixF& rows) {
  const RowMoments moments = row_moments(rows);
  Numbers cosines(rows.rows());
  quick_cosines(rows, moments.inverse_norms, QuickAnchor(moments.mean), cosines);
  return cosines;
}

Numbers pca_of(const RowMatrixF& rows) {
  const MatrixView view = rows;
  const Pca pca = fit_pca({&view, 1}, 2);
  Numbers all = listed(project(pca, rows));
  all.push_back(pca.relative_residual);
  for (const double ratio : pca.explained_ratio) all.push_back(ratio);
  return all;
}

// By their names in docs/numbers.md.
const std::vector<RowMeasure>& row_measures() {
  static const std::vector<RowMeasure> kMeasures{
      {"cosines", [](const RowMatrixF& rows) { return listed(cosines_to(rows, mean_row(rows))); }},
      {"quick cosines", quick},
      {"cosine matrix", [](const RowMatrixF& rows) { return listed(cosine_matrix(rows)); }},
      {"mean pairwise cosine", [](const RowMatrixF& rows) { return Numbers{pairwise_cosines(rows).mean}; }},
      {"cosine objective", [](const RowMatrixF& rows) { return Numbers{pairwise_cosines(rows).sum}; }},
      {"distances",
       [](const RowMatrixF& rows) {
         const auto distances = cosine_distances(rows);
         average_linkage(distances, rows.rows());
         return Numbers(distances.begin(), distances.end());
       }},
      {"norms",
       [](const RowMatrixF& rows) {
         const NormSummary norms = summarise_norms(rows);
         return Numbers{norms.min, norms.median, norms.max, norms.mean};
       }},
      {"geometry",
       [](const RowMatrixF& rows) {
         const HeadGeometry geometry = measure_head_geometry(rows, rows);
         return Numbers{geometry.mean_cosine, geometry.top_key_query_cosine, geometry.key_norms.mean};
       }},
      {"PCA", pca_of},
      {"spectrum",
       [](const RowMatrixF& rows) {
         const Spectrum spectrum = measure_spectrum(rows);
         return Numbers{spectrum.participation_ratio, spectrum.effective_rank};
       }},
      {"log volume",
       [](const RowMatrixF& rows) {
         const LogVolume volume = log_volume(rows);
         return Numbers{volume.log_volume_nats, volume.threshold, volume.regularised_log_volume_nats};
       }},
      {"bounds", bounds_of},
      {"relaxation gap",
       [](const RowMatrixF& rows) {
         const RelaxationGap gap = relaxation_gap(rows, 2);
         return Numbers{gap.seed_objective, gap.best_objective};
       }},
      {"attention", attended},
      {"filters",
       [](const RowMatrixF& rows) {
         QueryDirections directions(1, static_cast<int>(rows.cols()));
         directions.add(0, rows);
         const Eigen::VectorXd filter = directions.filter();
         return Numbers(filter.begin(), filter.end());
       }},
      {"quantisation", [](const RowMatrixF& rows) {
         RowMatrixF rounded = rows;
         round_rows(rounded.data(), rounded.rows(), rounded.cols(), {cache_format("int8", "token"), true, 1});
         return listed(rounded.cast<double>());
       }}};
  return kMeasures;
}

struct HardMatrix {
  std::string name;
  std::function<void(RowMatrixF&)> make;
};

const std::vector<HardMatrix>& hard_matrices() {
  static const std::vector<HardMatrix> kMatrices{
      {"NaN", [](RowMatrixF& rows) { rows(3, 1) = std::numeric_limits<float>::quiet_NaN(); }},
      {"+Inf", [](RowMatrixF& rows) { rows(3, 1) = std::numeric_limits<float>::infinity(); }},
      {"-Inf", [](RowMatrixF& rows) { rows(3, 1) = -std::numeric_limits<float>::infinity(); }},
      {"zeros throughout", [](RowMatrixF& rows) { rows.setZero(); }},
      {"a row of zeros", [](RowMatrixF& rows) { rows.row(3).setZero(); }},
      {"equal rows", [](RowMatrixF& rows) { rows.rowwise() = RowMatrixF(rows.row(0)).row(0); }},
      {"one row", [](RowMatrixF& rows) { rows.conservativeResize(1, rows.cols()); }},
      {"two rows", [](RowMatrixF& rows) { rows.conservativeResize(2, rows.cols()); }},
      {"numbers of 1e30", [](RowMatrixF& rows) { rows *= 1e30F; }},
      {"numbers of 1e38", [](RowMatrixF& rows) { rows *= 1e38F; }},
      {"numbers of 1e-30", [](RowMatrixF& rows) { rows *= 1e-30F; }},
      {"denormals (1e-42)", [](RowMatrixF& rows) { rows *= 1e-42F; }}};
  return kMatrices;
}

RowMatrixF hard_matrix(const HardMatrix& matrix) {
  RowMatrixF rows = sample_rows(21, 9, 4, 0.2);
  matrix.make(rows);
  return rows;
}

// "NaN: cosines, mean pairwise cosine; refused: PCA": the rest have values.
std::string outcome(const HardMatrix& matrix) {
  std::string unknown, refused;
  const RowMatrixF rows = hard_matrix(matrix);
  for (const RowMeasure& measure : row_measures()) {
    Numbers found;
    const std::string sentence = refusal([&] { found = measure.of(rows); });
    const auto add = [&](std::string& to) { to += (to.empty() ? "" : ", ") + measure.name; };
    if (!sentence.empty()) add(refused);
    if (std::ranges::any_of(found, [](double x) { return std::isnan(x); })) add(unknown);
    for (const double number : found) EXPECT_FALSE(std::isinf(number)) << matrix.name << ", " << measure.name;
  }
  std::string text = unknown.empty() ? "" : "NaN: " + unknown;
  if (!refused.empty()) text += (text.empty() ? "" : "; ") + ("refused: " + refused);
  return text.empty() ? "values" : text;
}

TEST(HardNumbers, EveryMeasureOfRowsIsWhatThePageSays) {
  auto page = numbers_page("Measures of rows");
  for (const HardMatrix& matrix : hard_matrices()) {
    EXPECT_EQ(page[matrix.name], outcome(matrix)) << matrix.name;
  }
}

// Cosines, ranks and shares of variance do not depend on a scale that is a power of two.
TEST(HardNumbers, NoScaleChangesWhatHasNone) {
  const RowMatrixF rows = sample_rows(22, 12, 5, 0.3);
  for (const float scale : {std::ldexp(1.0F, 100), std::ldexp(1.0F, -100)}) {
    const RowMatrixF scaled = rows * scale;
    EXPECT_EQ(cosine_matrix(rows), cosine_matrix(scaled));
    EXPECT_EQ(quick(rows), quick(scaled));
    EXPECT_DOUBLE_EQ(pairwise_cosines(rows).mean, pairwise_cosines(scaled).mean);
    EXPECT_NEAR(measure_spectrum(rows).effective_rank, measure_spectrum(scaled).effective_rank, 1e-8);
    EXPECT_EQ(log_volume(rows).rank, log_volume(scaled).rank);
    EXPECT_NEAR(log_volume(rows).regularised_log_volume_nats, log_volume(scaled).regularised_log_volume_nats,
                1e-8);
    EXPECT_NEAR(log_volume(scaled).log_volume_nats - log_volume(rows).log_volume_nats,
                2 * 5 * std::log(static_cast<double>(scale)), 1e-6);
    const MatrixView view = rows, scaled_view = scaled;
    const Pca pca = fit_pca({&view, 1}, 3), scaled_pca = fit_pca({&scaled_view, 1}, 3);
    EXPECT_LT((pca.explained_ratio - scaled_pca.explained_ratio).cwiseAbs().maxCoeff(), 1e-12);
    EXPECT_LT((pca.axes - scaled_pca.axes).cwiseAbs().maxCoeff(), 1e-9);
  }
}

TEST(HardNumbers, EveryMeasureIsTheSameBitsEveryTime) {
  const RowMatrixF rows = sample_rows(23, 40, 6, 0.1);
  for (const RowMeasure& measure : row_measures()) {
    const Numbers first = measure.of(rows), second = measure.of(rows);
    ASSERT_EQ(first.size(), second.size()) << measure.name;
    for (std::size_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(std::bit_cast<std::uint64_t>(first[i]), std::bit_cast<std::uint64_t>(second[i]))
          << measure.name;
  }
}

// A statistic of plain numbers, with its first result.
struct SampleMeasure {
  std::string name;
  double (*of)(const Numbers&);
};

const std::vector<SampleMeasure>& sample_measures() {
  static const std::vector<SampleMeasure> kMeasures{
      {"bootstrap", [](const Numbers& x) { return bootstrap_mean(x, {.n_resamples = 50}).mean; }},
      {"stratified bootstrap",
       [](const Numbers& x) {
         return stratified_bootstrap_mean({{x, x}}, {.n_resamples = 50}).mean;
       }},
      {"median", [](const Numbers& x) { return median_interval(x).median; }},
      {"quantiles", [](const Numbers& x) { return quantiles(x, Numbers{0.4}).front(); }},
      {"gini", [](const Numbers& x) { return gini(x); }},
      {"top share", [](const Numbers& x) { return top_share(x, 0.3); }},
      {"mass kept",
       [](const Numbers& x) {
         return attention_mass_kept(x, std::vector<std::int32_t>(x.empty() ? 0 : 1, 0));
       }},
      {"Spearman",
       [](const Numbers& x) {
         return spearman(x, Numbers{1, 2, 3, 5, 4, 6}).rho;
       }},
      {"Kendall",
       [](const Numbers& x) {
         return kendall(x, Numbers{1, 2, 3, 5, 4, 6}).tau;
       }},
      {"partial Spearman",
       [](const Numbers& x) {
         return partial_spearman(x, Numbers{1, 2, 3, 5, 4, 6}, Numbers{2, 1, 3, 4, 6, 5}).rho;
       }},
      {"Kruskal-Wallis",
       [](const Numbers& x) {
         return kruskal_wallis(x, std::vector<std::int32_t>{0, 0, 0, 1, 1, 1}, 99).epsilon_squared;
       }},
      {"sign flips", [](const Numbers& x) {
         return sign_flip_tests(std::vector<PairedComparison>{{0, x}}, {.n_resamples = 50}).front().p;
       }}};
  return kMeasures;
}

struct HardSample {
  std::string name;
  Numbers numbers;
};

TEST(HardNumbers, EveryStatisticIsWhatThePageSays) {
  auto page = numbers_page("Statistics");
  const std::vector<HardSample> samples{
      {"NaN", {1, 2, kNoNumber, 4, 5, 6}},
      {"+Inf", {1, 2, kInfinite, 4, 5, 6}},
      {"-Inf", {1, 2, -kInfinite, 4, 5, 6}},
      {"zeros throughout", Numbers(6)},
      {"equal numbers", Numbers(6, 2.0)},
      {"numbers of 1e30", {1e30, 2e30, 4e30, 3e30, 5e30, 6e30}},
      {"numbers of 1e-30", {1e-30, 2e-30, 4e-30, 3e-30, 5e-30, 6e-30}},
      {"denormals (5e-324)", {5e-324, 1e-323, 2e-323, 1.5e-323, 5e-323, 4e-323}}};
  for (const HardSample& sample : samples) {
    std::string unknown, refused;
    for (const SampleMeasure& measure : sample_measures()) {
      double found = 0;
      const std::string sentence = refusal([&] { found = measure.of(sample.numbers); });
      const auto add = [&](std::string& to) { to += (to.empty() ? "" : ", ") + measure.name; };
      if (!sentence.empty()) add(refused);
      if (std::isnan(found)) add(unknown);
      EXPECT_FALSE(std::isinf(found)) << sample.name << ", " << measure.name;
    }
    std::string text = unknown.empty() ? "" : "NaN: " + unknown;
    if (!refused.empty()) text += (text.empty() ? "" : "; ") + ("refused: " + refused);
    EXPECT_EQ(page[sample.name], text.empty() ? "values" : text) << sample.name;
  }
}

TEST(HardNumbers, AnUndefinedRankCorrelationSaysWhy) {
  const Numbers rising{1, 2, 3}, broken{1, kNoNumber, 3}, constant{2, 2, 2},
      infinite{-kInfinite, 0, kInfinite};
  EXPECT_EQ(spearman(broken, rising).status, CorrelationStatus::kNotANumber);
  EXPECT_EQ(kendall(rising, broken).status, CorrelationStatus::kNotANumber);
  EXPECT_EQ(partial_spearman(rising, rising, broken).status, CorrelationStatus::kNotANumber);
  EXPECT_EQ(kruskal_wallis(broken, std::vector<std::int32_t>{0, 1, 1}).status,
            CorrelationStatus::kNotANumber);
  EXPECT_EQ(spearman(constant, rising).status, CorrelationStatus::kConstant);
  EXPECT_EQ(spearman({}, {}).status, CorrelationStatus::kEmpty);
  EXPECT_DOUBLE_EQ(spearman(infinite, rising).rho, 1) << "infinities rank as the extremes";
  EXPECT_DOUBLE_EQ(kendall(infinite, rising).tau, 1);
}

TEST(HardNumbers, LogitsThatAreNoNumbersAreRefused) {
  RowMatrixF logits = sample_rows(24, 3, 5);
  EXPECT_EQ(logit_divergence(logits, logits).kl_nats, 0);
  const RowMatrixF huge = logits * 1e30F;
  EXPECT_EQ(logit_divergence(huge, huge).top1_agreement, 1);
  for (const float number :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    RowMatrixF broken = logits;
    broken(1, 2) = number;
    EXPECT_NE(refusal([&] { logit_divergence(logits, broken); }), "");
    EXPECT_NE(refusal([&] { logit_divergence(broken, logits); }), "");
  }
  logits(1, 2) = -std::numeric_limits<float>::infinity();  // cannot come
  EXPECT_EQ(logit_divergence(logits, logits).kl_nats, 0);
}

}  // namespace
}  // namespace keyscope::analysis
