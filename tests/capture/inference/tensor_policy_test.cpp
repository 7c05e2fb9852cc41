// Policies as operations on tensors, against the same policies of the registry, row by row.

#include "capture/inference/tensor_policy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/score_parts.hpp"
#include "base/errors.hpp"
#include "capture/inference/aten_arithmetic.hpp"
#include "capture/inference/eviction.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::capture {
namespace {

using ::testing::HasSubstr;

constexpr int kHeads = 3, kRows = 61, kWidth = 24, kLayer = 5, kFirstHead = 2;
constexpr int kNewRows = 8, kAsked = 40;
constexpr std::int64_t kGroup = 2;
constexpr std::int64_t kEnd = 208;  // of the positions

// Rows of some heads with all that a policy may ask for: some rows are alike, one is zero.
struct PolicyRows {
  explicit PolicyRows(at::ScalarType dtype) {
    std::mt19937_64 random(41);
    std::normal_distribution<float> normal;
    keys = at::empty({kHeads, kRows, kWidth});
    values = at::empty({kHeads, kRows, kWidth});
    for (at::Tensor* rows : {&keys, &values}) {
      std::generate_n(rows->mutable_data_ptr<float>(), rows->numel(), [&] { return 0.4F + normal(random); });
      rows->select(1, 9).copy_(rows->select(1, 4));
      rows->select(1, 60).copy_(rows->select(1, 4));
      rows->select(1, 30).zero_();
      *rows = rows->to(dtype);
    }
    std::uniform_real_distribution<float> weight(0, 1);
    for (int head = 0; head < kHeads; ++head) {
      std::vector<std::int32_t> of_head(kRows);
      std::int32_t position = head;
      for (std::int32_t& at : of_head) at = position += 1 + static_cast<std::int32_t>(random() % 3);
      for (int i = 0; i < kNewRows; ++i) of_head[kRows - kNewRows + i] = kEnd - kNewRows + i;
      positions.push_back(of_head);
      last_row.emplace_back(kRows);
      received.emplace_back(kRows);
      queries.emplace_back(kRows);
      window.emplace_back(kRows);
      for (int row = 0; row < kRows; ++row) {
        last_row.back()[row] = weight(random);
        received.back()[row] = 9 * weight(random);
        queries.back()[row] = static_cast<std::int32_t>(random() % 40);
        window.back()[row] = std::round(4 * weight(random)) / 4;
      }
    }
    last_queries = at::empty({kHeads * kGroup, kNewRows, kWidth});
    asked = at::empty({kHeads * kGroup, kAsked, kWidth});
    for (at::Tensor* rows : {&last_queries, &asked}) {
      std::generate_n(rows->mutable_data_ptr<float>(), rows->numel(), [&] { return 0.3F + normal(random); });
      *rows = rows->to(dtype);
    }
    for (int head = 0; head < kHeads * kGroup; ++head)
      rules.push_back({.scale = 0.2, .softcap = 30, .window = 150, .sink = head == 1 ? 0.5 : -kInfinity});
    filters.resize(kLayer + 1);
    filters[kLayer] = RowMatrixF(kFirstHead + kHeads, kWidth);
    std::generate_n(filters[kLayer].data(), filters[kLayer].size(), [&] { return normal(random); });
    means.resize(kLayer + 1);
    means[kLayer] = RowMatrixF(kFirstHead + kHeads, kGroup * (2 * kWidth - kPairs));
    std::generate_n(means[kLayer].data(), means[kLayer].size(), [&] { return normal(random); });
    for (const double exponent : {0., 1., 2., 3., 4., 5., 6., 7.})
      rotation.frequencies.push_back(std::pow(10, -exponent / 2));
  }

  // Of the last `window` queries of a head's group, one query head after the other.
  RowMatrixD queries_of(int head, std::int64_t most) const {
    const std::int64_t w = std::min<std::int64_t>(most, kNewRows);
    const at::Tensor rows =
        last_queries.narrow(0, head * kGroup, kGroup).narrow(1, kNewRows - w, w).to(at::kDouble).contiguous();
    return Eigen::Map<const RowMatrixD>(rows.const_data_ptr<double>(), kGroup * w, kWidth);
  }

  std::vector<analysis::QueryMoments> moments_of(int head) const {
    std::vector<analysis::QueryMoments> moments(kGroup);
    for (int query = 0; query < kGroup; ++query) {
      const at::Tensor rows = asked[head * kGroup + query].to(at::kFloat).contiguous();
      moments[query].add(view_rows(rows.const_data_ptr<float>(), kAsked, kWidth), rotation);
    }
    return moments;
  }

  void add_queries(const analysis::PolicyNeeds& needs, TensorPolicyInput& input) const {
    input.group_size = kGroup;
    input.n_new_rows = kNewRows;
    input.end = kEnd;
    input.rotation = &rotation;
    const auto last = [&](std::int64_t most) {
      const std::int64_t w = std::min<std::int64_t>(most, kNewRows);
      return last_queries.narrow(1, kNewRows - w, w).unflatten(0, {kHeads, kGroup});
    };
    if (needs.window_queries > 0) input.window_queries = last(needs.window_queries);
    if (needs.window_weights > 0)
      input.window_weights =
          weights_there(last(needs.window_weights), kEnd, rules, input.keys, input.positions);
    if (!needs.query_moments) return;
    TensorMoments moments;  // in two parts, as blocks bring them
    moments.add(asked.narrow(1, 0, 15), rotation);
    moments.copy().add(asked, rotation);  // which leaves those alone
    moments.add(asked.narrow(1, 15, kAsked - 15), rotation);
    input.moments = moments.of_heads(0, kHeads, kGroup);
  }

  template <typename T>
  static at::Tensor tensor(const std::vector<std::vector<T>>& of_heads, at::ScalarType dtype) {
    std::vector<at::Tensor> heads;
    for (const auto& head : of_heads) heads.push_back(at::tensor(head).to(dtype));
    return at::stack(heads);
  }

  TensorPolicyInput there(std::int64_t budget, const analysis::PolicyNeeds& needs) const {
    TensorPolicyInput input{.budget = budget, .layer = kLayer, .first_head = kFirstHead};
    input.keys = keys;
    input.values = values;
    input.positions = tensor(positions, at::kLong);
    input.last_row_group = tensor(last_row, at::kFloat);
    input.last_row_layer = input.last_row_group[0];
    input.attention_received = tensor(received, at::kDouble);
    input.attention_queries = tensor(queries, at::kLong);
    input.window_sums = tensor(window, at::kFloat);
    add_queries(needs, input);
    return input;
  }

  // What the policy itself makes of one head.
  struct OnHost {
    std::vector<double> scores;
    std::vector<std::uint8_t> forced;
  };
  OnHost on_host(const analysis::Policy& policy, int head, std::int64_t budget) const {
    const at::Tensor wide_keys = keys[head].to(at::kFloat), wide_values = values[head].to(at::kFloat);
    const analysis::PolicyNeeds needs = policy.needs();
    const auto moments = moments_of(head);
    const RowMatrixD asking = queries_of(head, needs.window_queries),
                     weighing = queries_of(head, needs.window_weights);
    const RowMatrixD weights = analysis::weights_on_rows(
        weighing, kEnd, std::span(rules).subspan(head * kGroup, kGroup),
        view_rows(wide_keys.const_data_ptr<float>(), kRows, kWidth), positions[head]);
    const analysis::PolicyInput input{.keys = view_rows(wide_keys.const_data_ptr<float>(), kRows, kWidth),
                                      .values = view_rows(wide_values.const_data_ptr<float>(), kRows, kWidth),
                                      .positions = positions[head],
                                      .n_new_rows = kNewRows,
                                      .budget = budget,
                                      .layer = kLayer,
                                      .kv_head = kFirstHead + head,
                                      .last_row_group = last_row[head],
                                      .last_row_layer = last_row[0],
                                      .attention_received = received[head],
                                      .attention_queries = queries[head],
                                      .window_sums = window[head],
                                      .group_size = kGroup,
                                      .window_queries = &asking,
                                      .window_weights = &weights,
                                      .rotation = &rotation,
                                      .query_moments = moments};
    OnHost made{std::vector<double>(kRows), std::vector<std::uint8_t>(kRows)};
    policy.score(input, made.scores);
    policy.force(input, budget, made.forced);
    return made;
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  at::Tensor keys, values, last_queries, asked;
  std::vector<analysis::AttentionRules> rules;
  analysis::Rotation rotation;
  static constexpr int kPairs = 8;
  std::vector<RowMatrixF> filters, means;
  std::vector<std::vector<std::int32_t>> positions, queries;
  std::vector<std::vector<float>> last_row, window;
  std::vector<std::vector<double>> received;
};

class TensorPolicies : public ::testing::TestWithParam<std::tuple<std::string, at::ScalarType>> {};

TEST_P(TensorPolicies, ScoreAndKeepWhatTheRegistrysDo) {
  const auto& [text, dtype] = GetParam();
  PolicyRows rows(dtype);
  rows.rotation.interleaved = dtype == at::kHalf;
  const auto policy = analysis::make_policy(analysis::parse_policy(text), 7);
  policy->take_file(policy->head_file() == analysis::HeadFile::kQueryMeans ? rows.means : rows.filters);
  const auto on_tensors = tensor_policy(*policy);
  ASSERT_NE(on_tensors, nullptr);
  // Whose scores come from matrix products, which have ways of their own at their ends.
  const bool by_products = policy->needs().queries() || policy->spec().name == "leverage" ||
                           policy->head_file() == analysis::HeadFile::kVectors ||
                           policy->head_file() == analysis::HeadFile::kQueryMeans;
  int n_compared = 0;
  for (const std::int64_t budget : {1, 3, 20, 60}) {
    const TensorPolicyInput input = rows.there(budget, policy->needs());
    const at::Tensor scores = on_tensors->score(input), forced = on_tensors->forced(input);
    const auto selections = TensorSelection(scores, forced, budget, SideStream(at::kCPU)).on_host();
    for (int head = 0; head < kHeads; ++head) {
      const PolicyRows::OnHost expected = rows.on_host(*policy, head, budget);
      for (int row = 0; row < kRows; ++row) {
        const double score = expected.scores[row];
        ASSERT_NEAR(scores[head][row].item<double>(), score, 2e-6 * std::max(1.0, std::abs(score)))
            << "head " << head << ", row " << row;
        ASSERT_EQ(forced.defined() && forced[head][row].item<bool>(), expected.forced[row] != 0);
      }
      if (!by_products) {
        EXPECT_EQ(scores[head][4].item<double>() == scores[head][60].item<double>(),
                  expected.scores[4] == expected.scores[60]);
      }
      const auto kept = analysis::select_rows(expected.scores, expected.forced, budget);
      if (by_products && std::ranges::any_of(kept.margin, [](float margin) { return margin < 1e-5F; }))
        continue;  // a close call
      ++n_compared;
      EXPECT_EQ(selections[head].retained, kept.retained);
      EXPECT_EQ(selections[head].evicted, kept.evicted);
      ASSERT_EQ(selections[head].margin.size(), kept.margin.size());
      for (std::size_t i = 0; i < kept.margin.size(); ++i)
        EXPECT_TRUE(std::abs(selections[head].margin[i] - kept.margin[i]) <= 4e-6F * (1 + kept.margin[i]) ||
                    (std::isnan(selections[head].margin[i]) && std::isnan(kept.margin[i])))
            << selections[head].margin[i] << " for " << kept.margin[i];
    }
  }
  EXPECT_GE(n_compared, 6);
}

INSTANTIATE_TEST_SUITE_P(
    All, TensorPolicies,
    ::testing::Combine(
        ::testing::Values(
            "keydiff", "keydiff:recent=0.1", "keydiff:anchor=normalized-mean", "keydiff:anchor=median",
            "keydiff:anchor=pairwise", "keydiff:metric=dot", "keydiff:metric=euclidean",
            "keydiff:anchor=median,metric=dot", "keydiff:anchor=normalized-mean,metric=euclidean", "manifold",
            "manifold:window=12", "manifold:window=30", "manifold:window=900", "l2norm", "leverage", "cur",
            "cur:window=16,sinks=4", "logdet", "logdet:ridge=0.01", "h2o", "h2o:recent=0.5",
            "h2o:normalize=1", "tova", "tova:heads=all", "snapkv", "snapkv:window=4,kernel=5,recent=2",
            "snapkv:kernel=201,recent=0", "sink", "sink:first=40", "duo:file=f", "duo:sinks=2,file=f",
            "random", "random:seed=3", "lagkv", "lagkv:lag=7,sinks=3", "lagkv:lag=30", "expected",
            "expected:epsilon=0", "capkv", "capkv:tau=2", "capkv:tau=9", "triattention",
            "triattention:group=mean", "triattention:file=f", "triattention:file=f,group=mean", "compactor",
            "compactor:window=3,blend=0.4", "compactor:sketch=48", "compactor:sketch=9,blend=0.7", "rkv",
            "rkv:window=3,kernel=1,threshold=0.2", "rkv:weight=0.6,kernel=21", "dropkv", "dropkv:window=1",
            "defensive", "defensive:window=3,kernel=5", "qfilters:file=f"),
        ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf)),
    [](const auto& test) {
      std::string name = std::get<0>(test.param) + "_" + c10::toString(std::get<1>(test.param));
      std::ranges::replace_if(
          name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
      return name;
    });

TEST(TensorPolicy, EveryPolicyOfTheRegistryHasOne) {
  for (const auto& entry : analysis::registered_policies()) {
    const auto policy = analysis::make_policy(
        analysis::parse_policy(entry.required.empty() ? entry.name : entry.name + ":file=f"), 1);
    if (policy == nullptr) continue;
    EXPECT_NE(tensor_policy(*policy), nullptr) << entry.name;
  }
}

// Of weights that leave nothing of the unit matrix, a share of 1 at most is left of each row.
TEST(TensorPolicy, BearsWhatSpansFarMoreThanOne) {
  const PolicyRows rows(at::kFloat);
  const auto policy = analysis::make_policy(analysis::parse_policy("capkv:tau=300"), 1);
  const at::Tensor scores = tensor_policy(*policy)->score(rows.there(9, policy->needs()));
  EXPECT_TRUE(scores.isfinite().all().item<bool>());
  EXPECT_GE(scores.min().item<double>(), 0);
}

TEST(TensorPolicy, SaysThatKeysAreNotFinite) {
  PolicyRows rows(at::kFloat);
  rows.keys[1][7][3] = std::nan("");
  for (const char* name : {"leverage", "compactor", "compactor:sketch=48", "capkv"}) {
    const auto policy = analysis::make_policy(analysis::parse_policy(name), 1);
    EXPECT_THROW(tensor_policy(*policy)->score(rows.there(9, policy->needs())), InvalidInput) << name;
  }
}

TEST(TensorSelection, KeepsTheEarlierOfEqualScores) {
  const at::Tensor scores =
      at::tensor({1., 2., 2., 0., 2., 5., 5., 5., 5., 5.}, at::dtype(at::kDouble)).view({2, 5});
  const auto selections = TensorSelection(scores, {}, 2, SideStream(at::kCPU)).on_host();
  EXPECT_THAT(selections[0].retained, ::testing::ElementsAre(1, 2));
  EXPECT_THAT(selections[0].evicted, ::testing::ElementsAre(0, 3, 4));
  EXPECT_THAT(selections[0].margin, ::testing::ElementsAre(1, 2, 0));
  EXPECT_THAT(selections[1].retained, ::testing::ElementsAre(0, 1));
}

TEST(TensorSelection, SaysWhichScoreIsNotFinite) {
  at::Tensor scores = at::tensor({1., 2., 3., 4.}, at::dtype(at::kDouble)).view({1, 4});
  scores[0][2] = std::nan("");
  try {
    TensorSelection(scores, {}, 2, SideStream(at::kCPU)).on_host();
    FAIL() << "taken";
  } catch (const InvalidInput& error) {
    EXPECT_THAT(error.what(), HasSubstr("the score of row 2 is nan"));
  }
}

// A policy of its user's own, which looks at rows on the host.
class OwnPolicy : public analysis::Policy {
 public:
  void score(const analysis::PolicyInput& /*input*/, std::span<double> scores) const override {
    std::iota(scores.begin(), scores.end(), 0);
  }
};

// Where all heads are cut alike by what tensors tell, nobody waits for which rows stay; else nothing is done.
TEST(EvictionOnTensors, TellsLateWhereAllHeadsAreAlike) {
  const c10::InferenceMode inference;
  const auto model = Model::load(test::inference_golden("tiny_llama"),
                                 test::model_options(Arithmetic::kAten, DType::kFloat32));
  const auto& transformer = dynamic_cast<const AtenTransformer&>(model->transformer());
  const HeadShape heads = model->config().heads(0);
  constexpr std::int64_t kCached = 20, kBudget = 12;
  const auto evicted = [&](const analysis::Policy& policy, std::int64_t last_budget) {
    AtenLayer layer(transformer, {.capacities = std::vector<std::int64_t>(heads.n_kv_heads, kCached)});
    const at::Tensor rows = at::randn({heads.n_kv_heads, kCached, heads.head_dim});
    dynamic_cast<AtenCache&>(layer.cache()).append(rows, rows, 0);
    EvictionRule rule{&policy, std::vector<std::int64_t>(heads.n_kv_heads, kBudget)};
    rule.budgets.back() = last_budget;
    BlockStatistics block;
    block.n_queries = block.end = kCached;
    const auto selections = layer.evict_alike(rule, block);
    const std::int64_t left = layer.cache().n_rows(0);
    return std::pair(selections == nullptr ? 0 : selections().size(), left);
  };
  const auto keydiff = analysis::make_policy(analysis::parse_policy("keydiff"), 0),
             slotted = analysis::make_policy(analysis::parse_policy("keydiff:protect=sinks:2"), 0);
  EXPECT_EQ(evicted(*keydiff, kBudget), std::pair(static_cast<std::size_t>(heads.n_kv_heads), kBudget));
  const std::pair nothing(std::size_t{0}, kCached);
  EXPECT_EQ(evicted(*keydiff, kBudget + 1), nothing);
  EXPECT_EQ(evicted(*keydiff, kCached), nothing);
  EXPECT_EQ(evicted(*slotted, kBudget), nothing);
  EXPECT_EQ(evicted(OwnPolicy(), kBudget), nothing);
}

}  // namespace
}  // namespace keyscope::capture
