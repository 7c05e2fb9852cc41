#include "analysis/retained_set.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/similarity.hpp"
#include "base/errors.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using Positions = std::vector<std::int32_t>;

// What most models do.
std::vector<AttentionRules> plain(Eigen::Index head_dim) {
  return {{.scale = 1 / std::sqrt(static_cast<double>(head_dim))}};
}

TEST(AttentionMass, IsTheShareOfRetainedRows) {
  const std::vector<double> received{4, 3, 2, 1};
  EXPECT_DOUBLE_EQ(attention_mass_kept(received, Positions{0, 3}), 0.5);
  EXPECT_EQ(attention_mass_kept(received, Positions{0, 1, 2, 3}), 1);
  EXPECT_EQ(attention_mass_kept(received, Positions{}), 0);
  EXPECT_TRUE(std::isnan(attention_mass_kept(std::vector<double>{0, 0}, Positions{0})));
  EXPECT_THROW(attention_mass_kept(received, Positions{4}), InvalidInput);
  EXPECT_THROW(attention_mass_kept(received, Positions{-1}), InvalidInput);
}

TEST(Jaccard, IsOverlapOverUnion) {
  EXPECT_DOUBLE_EQ(jaccard(Positions{1, 2, 3, 9}, Positions{2, 3, 4}), 0.4);
  EXPECT_EQ(jaccard(Positions{1, 2}, Positions{1, 2}), 1);
  EXPECT_EQ(jaccard(Positions{1, 2}, Positions{}), 0);
  EXPECT_TRUE(std::isnan(jaccard(Positions{}, Positions{})));
}

double error_of(const RowMatrixF& queries, const Positions& at, const RowMatrixF& keys,
                const RowMatrixF& values, const Positions& retained, std::span<const AttentionRules> rules) {
  Positions all(keys.rows());
  std::iota(all.begin(), all.end(), 0);
  return output_error(attend(queries, at, keys, values, all, rules),
                      attend(queries, at, keys, values, retained, rules));
}

TEST(OutputError, MatchesNumPy) {
  const auto golden = read_goldens("analysis_goldens.json", "output_error");
  const auto seed = golden["seed"].get<std::uint64_t>();
  const auto n = golden["n"].get<std::int32_t>();
  const auto d = golden["d"].get<Eigen::Index>();
  const auto m = golden["m"].get<std::int32_t>();
  const RowMatrixF keys = sample_rows(seed, n, d, 0.4) * 8;
  const RowMatrixF values = sample_rows(seed + 1, n, d);
  const RowMatrixF queries = sample_rows(seed + 2, golden["group"].get<Eigen::Index>() * m, d, 0.1) * 8;
  Positions positions;
  for (Eigen::Index i = 0; i < queries.rows(); ++i)
    positions.push_back(n - m + static_cast<std::int32_t>(i) % m);
  const auto retained = golden["retained"].get<Positions>();
  EXPECT_NEAR(error_of(queries, positions, keys, values, retained, plain(d)),
              golden["output_error"].get<double>(), 1e-12);
  RowMatrixF kept(static_cast<Eigen::Index>(retained.size()), d);
  for (std::size_t i = 0; i < retained.size(); ++i)
    kept.row(static_cast<Eigen::Index>(i)) = keys.row(retained[i]);
  EXPECT_NEAR(pairwise_cosines(kept).sum, golden["cosine_objective"].get<double>(), 1e-10);
}

TEST(OutputError, EndsOfTheScale) {
  const RowMatrixF keys = sample_rows(1, 10, 4) * 2000;  // logits far beyond what exp takes
  const RowMatrixF values = sample_rows(2, 10, 4);
  const RowMatrixF queries = sample_rows(3, 3, 4) * 2000;
  const Positions positions{3, 5, 9};
  Positions all(10);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(error_of(queries, positions, keys, values, all, plain(4)), 0);
  EXPECT_EQ(error_of(queries, positions, keys, values, Positions{}, plain(4)), 1)
      << "nothing seen: an output of zero";
  EXPECT_TRUE(std::isnan(error_of(queries, positions, keys, RowMatrixF(values * 0), all, plain(4))));
}

TEST(OutputError, RowsAfterTheQueryCountForNothing) {
  const RowMatrixF keys = sample_rows(1, 10, 4), values = sample_rows(2, 10, 4),
                   queries = sample_rows(3, 1, 4);
  EXPECT_EQ(error_of(queries, Positions{4}, keys, values, Positions{1, 2, 7, 9}, plain(4)),
            error_of(queries, Positions{4}, keys, values, Positions{1, 2}, plain(4)));
}

// The same as one would write it in NumPy: all scores as a matrix, what is not seen at minus infinity.
double slow_output_error(const RowMatrixF& queries, const Positions& at, const RowMatrixF& keys,
                         const RowMatrixF& values, const Positions& retained, double scale, double cap,
                         std::int64_t window, std::span<const double> sinks = {}) {
  RowMatrixD scores = queries.cast<double>() * keys.cast<double>().transpose() * scale;
  if (cap > 0) scores = cap * (scores.array() / cap).tanh();
  const auto outputs = [&](const Positions& kept) {
    RowMatrixD weights = RowMatrixD::Zero(scores.rows(), scores.cols());
    for (Eigen::Index q = 0; q < scores.rows(); ++q) {
      for (const auto key : kept) {
        const std::int64_t distance = at[q] - key;
        if (distance >= 0 && (window == 0 || distance < window)) weights(q, key) = std::exp(scores(q, key));
      }
      const double sink = sinks.empty() ? 0 : std::exp(sinks[q]);
      if (weights.row(q).sum() > 0) weights.row(q) /= weights.row(q).sum() + sink;
    }
    return RowMatrixD(weights * values.cast<double>());
  };
  Positions all(keys.rows());
  std::iota(all.begin(), all.end(), 0);
  const RowMatrixD full = outputs(all);
  return (outputs(retained) - full).norm() / full.norm();
}

TEST(OutputError, FollowsScaleSoftCapAndWindow) {
  const RowMatrixF keys = sample_rows(5, 30, 6, 0.3) * 4, values = sample_rows(6, 30, 5),
                   queries = sample_rows(7, 8, 6, 0.1) * 4;
  const Positions at{3, 9, 12, 17, 22, 26, 28, 29}, retained{0, 2, 9, 10, 16, 21, 22, 27, 29};
  std::vector<double> found;
  for (const auto& [scale, cap, window] :
       {std::tuple{0.4, 0.0, 0}, {0.1, 0.0, 0}, {0.4, 2.0, 0}, {0.4, 0.0, 7}, {0.4, 2.0, 7}, {0.4, 0.0, 1}}) {
    const std::vector<AttentionRules> rules{{.scale = scale, .softcap = cap, .window = window}};
    found.push_back(error_of(queries, at, keys, values, retained, rules));
    EXPECT_NEAR(found.back(), slow_output_error(queries, at, keys, values, retained, scale, cap, window),
                1e-12)
        << scale << ", " << cap << ", " << window;
  }
  for (std::size_t i = 1; i < found.size(); ++i)
    EXPECT_GT(std::abs(found[i] - found[0]), 1e-3) << "each of the three makes a difference";
}

// A sink holds the weights of both sides down; of two query heads, each has its own.
TEST(OutputError, GivesEachQueryHeadItsSink) {
  const RowMatrixF keys = sample_rows(5, 30, 6, 0.3) * 4, values = sample_rows(6, 30, 5),
                   queries = sample_rows(7, 8, 6, 0.1) * 4;
  const Positions at{12, 17, 26, 29, 12, 17, 26, 29}, retained{0, 2, 9, 10, 16, 21, 22, 27, 29};
  const std::vector<double> sinks{1.5, 1.5, 1.5, 1.5, -0.5, -0.5, -0.5, -0.5};
  const std::vector<AttentionRules> rules{{.scale = 0.4, .window = 20, .sink = 1.5},
                                          {.scale = 0.4, .window = 20, .sink = -0.5}};
  const double found = error_of(queries, at, keys, values, retained, rules);
  EXPECT_NEAR(found, slow_output_error(queries, at, keys, values, retained, 0.4, 0, 20, sinks), 1e-12);
  EXPECT_GT(std::abs(found - slow_output_error(queries, at, keys, values, retained, 0.4, 0, 20)), 1e-3);
  // Twice the same head without a sink is one head.
  const std::vector<AttentionRules> same{{.scale = 0.4}, {.scale = 0.4}};
  EXPECT_EQ(error_of(queries, at, keys, values, retained, same),
            error_of(queries, at, keys, values, retained, std::span(same).first(1)));
  const std::vector<AttentionRules> three(3, AttentionRules{.scale = 0.4});
  EXPECT_THROW(error_of(queries, at, keys, values, retained, three), InvalidInput);
}

TEST(OutputError, RefusesWhatDoesNotFit) {
  const RowMatrixF keys = sample_rows(1, 10, 4), queries = sample_rows(3, 1, 4);
  RowMatrixF values = sample_rows(2, 10, 4);
  EXPECT_THROW(error_of(queries, Positions{10}, keys, values, Positions{}, plain(4)), InvalidInput);
  EXPECT_THROW(error_of(queries, Positions{1, 2}, keys, values, Positions{}, plain(4)), InvalidInput);
  EXPECT_THROW(error_of(queries, Positions{1}, keys, values.topRows(9), Positions{}, plain(4)), InvalidInput);
  EXPECT_THROW(error_of(queries, Positions{1}, keys, values, Positions{-1}, plain(4)), InvalidInput);
  values(0, 0) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(error_of(queries, Positions{1}, keys, values, Positions{}, plain(4)), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis
