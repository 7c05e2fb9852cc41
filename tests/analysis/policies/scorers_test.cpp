// The scorers of 2024 to 2026 against NumPy: goldens/make_scorer_goldens.py.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Eigenvalues>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/matrix_view.hpp"
#include "analysis/policies/registry.hpp"
#include "analysis/policies/row_selection.hpp"
#include "analysis/policies/unrotated.hpp"
#include "base/errors.hpp"
#include "tests/support/goldens.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {
namespace {

using nlohmann::json;

template <typename Matrix>
Matrix matrix(const json& rows) {
  if (rows.empty()) return {};
  Matrix all(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(rows.front().size()));
  for (Eigen::Index i = 0; i < all.rows(); ++i)
    for (Eigen::Index j = 0; j < all.cols(); ++j) all(i, j) = rows[i][j].get<typename Matrix::Scalar>();
  return all;
}

// Of a group's query heads one after another.
RowMatrixD stacked(const json& heads, Eigen::Index n_last) {
  const Eigen::Index n = std::min<Eigen::Index>(n_last, static_cast<Eigen::Index>(heads.front().size()));
  std::vector<RowMatrixD> all;
  for (const json& head : heads) all.push_back(matrix<RowMatrixD>(head));
  RowMatrixD rows(n * std::ssize(all), all.front().cols());
  for (std::size_t head = 0; head < all.size(); ++head)
    rows.middleRows(static_cast<Eigen::Index>(head) * n, n) = all[head].bottomRows(n);
  return rows;
}

// Queries whose moments are those of a golden, since a policy is given what QueryMoments makes of queries:
// mean ± the columns of a root of the covariance. Their moduli are others.
QueryMoments moments_of(const json& mean, const json& covariance, const Rotation& rotation) {
  const Eigen::MatrixXd spread = matrix<Eigen::MatrixXd>(covariance);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(spread);
  const Eigen::MatrixXd columns =
      solver.eigenvectors() * solver.eigenvalues().cwiseMax(0).cwiseSqrt().asDiagonal();
  const auto d = static_cast<Eigen::Index>(mean.size());
  RowMatrixF queries(2 * d, d);
  for (Eigen::Index i = 0; i < d; ++i)
    for (Eigen::Index j = 0; j < d; ++j) {
      const double step = std::sqrt(static_cast<double>(d)) * columns(j, i);
      queries(2 * i, j) = static_cast<float>(mean[j].get<double>() + step);
      queries(2 * i + 1, j) = static_cast<float>(mean[j].get<double>() - step);
    }
  QueryMoments moments;
  moments.add(queries, rotation);
  return moments;
}

// Likewise two with a golden's mean and moduli: the mean ± what stands at right angles to each of its pairs.
QueryMoments moduli_of(const json& mean, const json& moduli, const Rotation& rotation) {
  const auto n_pairs = static_cast<Eigen::Index>(rotation.n_pairs());
  RowMatrixF queries(2, 2 * n_pairs);
  for (Eigen::Index f = 0; f < n_pairs; ++f) {
    const double x = mean[f], y = mean[n_pairs + f], length = std::hypot(x, y), modulus = moduli[f];
    const double step = std::sqrt(std::max(0.0, modulus * modulus - length * length)) / length;
    for (const int side : {0, 1}) {
      const double signed_step = side == 0 ? step : -step;
      queries(side, f) = static_cast<float>(x - signed_step * y);
      queries(side, n_pairs + f) = static_cast<float>(y + signed_step * x);
    }
  }
  QueryMoments moments;
  moments.add(queries, rotation);
  return moments;
}

// One of the goldens' heads.
struct Case {
  Case(const json& from, const json& all)
      : name(from.at("name")),
        keys(matrix<RowMatrixF>(from.at("keys"))),
        values(matrix<RowMatrixF>(from.at("values"))),
        positions(from.at("positions")),
        n_new_rows(from.at("n_new_rows")),
        attention(from.at("attention")),
        window_queries(from.at("window_queries")) {
    rotation.frequencies = all.at("inverse_frequencies").get<std::vector<double>>();
  }

  std::string name;
  RowMatrixF keys, values;
  std::vector<std::int32_t> positions;
  std::int64_t n_new_rows;
  json attention, window_queries;
  Rotation rotation;
};

struct Scored {
  std::vector<double> scores;
  std::vector<std::uint8_t> forced;
};

Scored score(const Policy& policy, const Case& head, std::span<const QueryMoments> moments,
             std::int64_t budget) {
  const PolicyNeeds needs = policy.needs();
  const RowMatrixD weights = stacked(head.attention, std::max(1, needs.window_weights));
  const RowMatrixD queries = stacked(head.window_queries, std::max(1, needs.window_queries));
  const PolicyInput input{.keys = head.keys,
                          .values = head.values,
                          .positions = head.positions,
                          .n_new_rows = head.n_new_rows,
                          .budget = budget,
                          .group_size = static_cast<int>(head.attention.size()),
                          .window_queries = &queries,
                          .window_weights = &weights,
                          .rotation = &head.rotation,
                          .query_moments = moments};
  Scored scored{std::vector<double>(head.positions.size()), std::vector<std::uint8_t>(head.positions.size())};
  policy.score(input, scored.scores);
  policy.force(input, std::min<std::int64_t>(budget, std::ssize(head.positions)), scored.forced);
  return scored;
}

// How the goldens' names are written here; empty: what is made otherwise here, or not at all.
std::string policy_name(const std::string& golden) {
  static const std::map<std::string, std::string> kOthers{
      {"capkv:sinks=4", ""},  // sinks are protection
      {"expected:epsilon=0,sinks=4", ""},
      {"qfilters", "qfilters:file=f.json"},
      {"duo:streaming", "duo:file=f.json"}};  // of which nothing is read, so that all heads stream
  if (golden.starts_with("critical")) return "";
  const auto other = kOthers.find(golden);
  return other == kOthers.end() ? golden : other->second;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

TEST(Scorers, AreThoseOfNumPy) {
  const json all = read_goldens("../policies/goldens/scorers.json");
  std::map<std::string, int> compared;
  for (const json& from : all.at("cases")) {
    const Case head(from, all);
    std::vector<QueryMoments> spreads, moduli;
    for (std::size_t g = 0; g < from.at("query_means").size(); ++g) {
      const json& mean = from.at("query_means")[g];
      spreads.push_back(moments_of(mean, from.at("query_covariances")[g], head.rotation));
      moduli.push_back(moduli_of(mean, from.at("query_moduli")[g], head.rotation));
    }
    for (const json& golden : from.at("scorers")) {
      const std::string name = policy_name(golden.at("policy"));
      if (name.empty()) continue;
      const auto policy = make_policy(parse_policy(name), 0);
      if (policy->head_file() == HeadFile::kVectors)
        policy->take_file({matrix<RowMatrixF>(json::array({from.at("query_filter")}))});
      for (const json& set : golden.at("sets")) {
        const std::int64_t budget = set.at("budget");
        const Scored scored = score(*policy, head, name.starts_with("tri") ? moduli : spreads, budget);
        const std::vector<double> expected = golden.at("scores");
        std::vector<std::int32_t> rows(golden.at("stays").get<std::vector<std::int32_t>>());
        const auto stays = [&](std::size_t row) {
          return std::ranges::find(rows, std::int32_t(row)) != rows.end();
        };
        ASSERT_EQ(scored.scores.size(), expected.size());
        // The golden's keys before rotation are rounded to float32; leverage of equal ones is of what that
        // left.
        const double tolerance = name.starts_with("compactor") ? 2e-4 : 2e-5;
        for (std::size_t row = 0; row < expected.size(); ++row) {
          if (stays(row)) continue;
          EXPECT_NEAR(scored.scores[row], expected[row], tolerance * std::max(1e-3, largest(expected)))
              << head.name << ' ' << name << " row " << row;
        }
        if (set.at("gap").is_null() || set.at("gap").get<double>() < 1e-5) continue;
        const Selection kept = select_rows(scored.scores, scored.forced, budget);
        std::vector<std::int32_t> positions;
        for (const std::int32_t row : kept.retained) positions.push_back(head.positions[row]);
        EXPECT_EQ(positions, set.at("retained").get<std::vector<std::int32_t>>()) << head.name << ' ' << name;
        ++compared[name];
      }
    }
  }
  for (const char* name :
       {"lagkv", "expected", "capkv", "compactor:sketch=48", "compactor:sketch=7,blend=0.5",
        "compactor:blend=0.5", "triattention", "triattention:group=mean", "rkv", "dropkv", "defensive",
        "defensive:kernel=7", "cur:window=16,sinks=4", "manifold", "manifold:window=16", "manifold:window=9",
        "keydiff", "qfilters:file=f.json", "duo:file=f.json"})
    EXPECT_GE(compared[name], 3) << name;
}

// Means that a file brings are taken as those of the run are.
TEST(Scorers, TriAttentionTakesMeansOfAFile) {
  const json all = read_goldens("../policies/goldens/scorers.json");
  int n_compared = 0;
  for (const json& from : all.at("cases")) {
    const Case head(from, all);
    std::vector<float> means;
    for (std::size_t g = 0; g < from.at("query_means").size(); ++g)
      for (const char* what : {"query_means", "query_moduli"})
        for (const json& number : from.at(what)[g]) means.push_back(number.get<float>());
    for (const json& golden : from.at("scorers")) {
      const std::string name = golden.at("policy");
      if (!name.starts_with("triattention")) continue;
      const auto policy =
          make_policy(parse_policy(name + (name == "triattention" ? ":" : ",") + "file=f.json"), 0);
      EXPECT_FALSE(policy->needs().queries());
      policy->take_file({view_rows(means.data(), 1, std::ssize(means))});
      const Scored scored = score(*policy, head, {}, 1);
      const std::vector<double> expected = golden.at("scores");
      for (std::size_t row = 0; row < expected.size(); ++row)
        EXPECT_NEAR(scored.scores[row], expected[row], 2e-5 * std::max(1e-3, largest(expected)))
            << head.name << ' ' << name << " row " << row;
      ++n_compared;
    }
  }
  EXPECT_GE(n_compared, 10);
}

TEST(Scorers, TriAttentionRefusesMeansOfAnotherShape) {
  const RowMatrixF rows = sample_rows(3, 4, 6);
  const std::vector<std::int32_t> positions{0, 1, 2, 3};
  const Rotation rotation{{1.0, 0.1}};
  const auto policy = make_policy(parse_policy("triattention:file=f.json"), 0);
  std::vector<double> scores(4);
  const auto scored = [&] {
    policy->score({.keys = rows, .values = rows, .positions = positions, .rotation = &rotation}, scores);
  };
  EXPECT_THROW(scored(), InvalidInput);  // nothing was read
  policy->take_file({RowMatrixF::Ones(1, 11)});
  EXPECT_THROW(scored(), InvalidInput);
  policy->take_file({RowMatrixF::Ones(1, 20)});  // two query heads of 6 and 4 numbers
  EXPECT_NO_THROW(scored());
}

// As the formula stands, one angle after the other.
std::vector<double> slow_triattention(const Case& head, const QueryMoments& moments) {
  const RowMatrixD keys = unrotated(head.keys, head.positions, head.rotation);
  const Eigen::VectorXd mean = moments.mean(), moduli = moments.mean_moduli();
  const auto n_pairs = static_cast<Eigen::Index>(head.rotation.n_pairs());
  std::vector<double> scores;
  for (Eigen::Index row = 0; row < keys.rows(); ++row) {
    double sum = 0;
    for (Eigen::Index f = 0; f < n_pairs; ++f) {
      const double q = std::hypot(mean[f], mean[n_pairs + f]),
                   k = std::hypot(keys(row, f), keys(row, n_pairs + f));
      const double phase =
          std::atan2(mean[n_pairs + f], mean[f]) - std::atan2(keys(row, n_pairs + f), keys(row, f));
      double waves = 0;
      for (int i = 0; i <= 16; ++i) {
        const double distance = head.positions.back() + std::ldexp(1.0, i) - head.positions[row];
        waves += std::cos(distance * head.rotation.frequencies[f] + phase) / 17;
      }
      sum += q * k * waves + (moduli[f] - q) * k;
    }
    scores.push_back(sum);
  }
  return scores;
}

// Queries, not their moduli, are what a policy is given: a golden's moduli go with queries it does not hold.
TEST(Scorers, TriAttentionIsTheSumOverOffsets) {
  const json all = read_goldens("../policies/goldens/scorers.json");
  for (const json& from : all.at("cases")) {
    const Case head(from, all);
    std::vector<QueryMoments> moments(1);
    moments[0].add(matrix<RowMatrixF>(from.at("unrotated_window_queries")[0]), head.rotation);
    const auto scored = score(*make_policy(parse_policy("triattention:group=mean"), 0), head, moments, 1);
    const auto expected = slow_triattention(head, moments[0]);
    for (std::size_t row = 0; row < expected.size(); ++row)
      EXPECT_NEAR(scored.scores[row], expected[row], 1e-9 * std::max(1.0, largest(expected))) << head.name;
  }
}

// A coordinate that does not turn is a pair that turns by nothing and has no other half.
TEST(Scorers, TriAttentionTakesStillCoordinatesAsPairsThatDoNotTurn) {
  const RowMatrixF keys = sample_rows(5, 9, 5), queries = sample_rows(6, 7, 5);
  const auto paired = [](const RowMatrixF& rows) {  // 0 1 | 2 3 and 4 to 0 1 4 | 2 3 and zero
    RowMatrixF wide = RowMatrixF::Zero(rows.rows(), 6);
    for (const auto& [from, to] : {std::pair{0, 0}, {1, 1}, {4, 2}, {2, 3}, {3, 4}})
      wide.col(to) = rows.col(from);
    return wide;
  };
  const auto scores_of = [](const RowMatrixF& rows, const RowMatrixF& asked, const Rotation& rotation) {
    std::vector<std::int32_t> positions{0, 1, 2, 3, 5, 8, 9, 11, 12};
    std::vector<QueryMoments> moments(1);
    moments[0].add(asked, rotation);
    std::vector<double> scores(positions.size());
    make_policy(parse_policy("triattention:group=mean"), 0)
        ->score({.keys = rows,
                 .values = rows,
                 .positions = positions,
                 .rotation = &rotation,
                 .query_moments = moments},
                scores);
    return scores;
  };
  const auto still = scores_of(keys, queries, {{1.0, 0.1}});
  const auto turned = scores_of(paired(keys), paired(queries), {{1.0, 0.1, 0.0}});
  for (std::size_t row = 0; row < still.size(); ++row) EXPECT_NEAR(still[row], turned[row], 1e-12) << row;
}

// Three partitions of two rows after one that always stays; the last and what does not fill one have none
// after them.
TEST(Scorers, LagKvKeepsWhatHasNoNextPartition) {
  const auto policy = make_policy(parse_policy("lagkv:sinks=1,lag=2"), 0);
  const RowMatrixF rows = sample_rows(7, 8, 3);
  const auto forced = [&](std::int64_t budget) {
    std::vector<std::uint8_t> marks(8);
    policy->force({.keys = rows, .values = rows, .positions = {}}, budget, marks);
    std::vector<int> stays;
    for (int row = 0; row < 8; ++row)
      if (marks[row] != 0) stays.push_back(row);
    return stays;
  };
  EXPECT_EQ(forced(7), (std::vector<int>{0, 5, 6, 7}));
  EXPECT_EQ(forced(2), (std::vector<int>{0, 7}));
  EXPECT_EQ(forced(1), (std::vector<int>{0}));
}

TEST(Scorers, LagKvRanksRowsFarOutsideTheNextPartitionsRange) {
  RowMatrixF rows = sample_rows(8, 4, 3, 0.5);
  rows.row(0) *= 1e5F;
  std::vector<double> scores(4);
  make_policy(parse_policy("lagkv:sinks=0,lag=2"), 0)
      ->score({.keys = rows, .values = rows, .positions = {}}, scores);
  EXPECT_GT(scores[0], scores[1]);
}

TEST(Scorers, QueriesTurnBackToWhatTheyWere) {
  const json all = read_goldens("../policies/goldens/scorers.json");
  for (const json& from : all.at("cases")) {
    const Case head(from, all);
    const RowMatrixD expected = matrix<RowMatrixD>(from.at("unrotated_keys"));
    EXPECT_LT((unrotated(head.keys, head.positions, head.rotation) - expected).cwiseAbs().maxCoeff(), 2e-6)
        << head.name;
  }
}

TEST(Scorers, InterleavedPairsTurnAlike) {
  const Rotation halves{{1.0, 0.01}, false}, neighbours{{1.0, 0.01}, true};
  RowMatrixF keys(1, 5), other(1, 5);
  keys << 1, 2, 3, 4, 5;
  other << 1, 3, 2, 4, 5;  // pairs (1, 3) and (2, 4)
  const std::vector<std::int32_t> positions{7};
  const RowMatrixD a = unrotated(keys, positions, halves), b = unrotated(other, positions, neighbours);
  EXPECT_DOUBLE_EQ(a(0, 0), b(0, 0));
  EXPECT_DOUBLE_EQ(a(0, 2), b(0, 1));
  EXPECT_DOUBLE_EQ(a(0, 1), b(0, 2));
  EXPECT_DOUBLE_EQ(a(0, 4), 5);
}

}  // namespace
}  // namespace keyscope::analysis
