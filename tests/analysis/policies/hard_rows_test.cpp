// What every policy of the registry makes of rows that no model should give: docs/numbers.md.

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/policies/layer_budgets.hpp"
#include "analysis/policies/registry.hpp"
#include "analysis/policies/score_parts.hpp"
#include "analysis/policies/slot_selection.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "tests/support/numbers_page.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                kFarAway = std::numeric_limits<float>::infinity();
constexpr Eigen::Index kTokens = 12, kWidth = 4, kGroup = 2;

// A KV head's rows and its query heads' queries, one for each row.
struct HardHead {
  RowMatrixF keys = sample_rows(1, kTokens, kWidth), values = sample_rows(2, kTokens, kWidth);
  std::vector<RowMatrixF> queries{sample_rows(3, kTokens, kWidth), sample_rows(4, kTokens, kWidth)};

  void keep(Eigen::Index n_rows) {
    for (RowMatrixF* rows : {&keys, &values, &queries[0], &queries[1]})
      rows->conservativeResize(n_rows, kWidth);
  }
  void all(float number) {
    for (RowMatrixF* rows : {&keys, &values, &queries[0], &queries[1]}) rows->setConstant(number);
  }
  void times(float factor) {
    for (RowMatrixF* rows : {&keys, &values, &queries[0], &queries[1]}) *rows *= factor;
  }
};

struct HardRows {
  std::string name;  // as the page has it
  std::function<void(HardHead&)> make;
};

const std::vector<HardRows>& hard_rows() {
  static const std::vector<HardRows> kRows{
      {"NaN in a key", [](HardHead& head) { head.keys(3, 1) = kNan; }},
      {"+Inf in a key", [](HardHead& head) { head.keys(3, 1) = kFarAway; }},
      {"-Inf in a key", [](HardHead& head) { head.keys(3, 1) = -kFarAway; }},
      {"NaN in a value", [](HardHead& head) { head.values(3, 1) = kNan; }},
      {"+Inf in a value", [](HardHead& head) { head.values(3, 1) = kFarAway; }},
      {"-Inf in a value", [](HardHead& head) { head.values(3, 1) = -kFarAway; }},
      {"NaN in the last query of one query head",
       [](HardHead& head) { head.queries[1](kTokens - 1, 1) = kNan; }},
      {"+Inf in the last query of one query head",
       [](HardHead& head) { head.queries[1](kTokens - 1, 1) = kFarAway; }},
      {"-Inf in the last query of one query head",
       [](HardHead& head) { head.queries[1](kTokens - 1, 1) = -kFarAway; }},
      {"NaN throughout", [](HardHead& head) { head.all(kNan); }},
      {"zeros throughout", [](HardHead& head) { head.all(0); }},
      {"a key of zeros", [](HardHead& head) { head.keys.row(3).setZero(); }},
      {"equal keys", [](HardHead& head) { head.keys.rowwise() = RowMatrixF(head.keys.row(0)).row(0); }},
      {"queries of zeros: equal attention",
       [](HardHead& head) {
         for (auto& rows : head.queries) rows.setZero();
       }},
      {"numbers of 1e30", [](HardHead& head) { head.times(1e30F); }},
      {"numbers of 1e38", [](HardHead& head) { head.times(1e38F); }},
      {"numbers of 1e-30", [](HardHead& head) { head.times(1e-30F); }},
      {"denormals (1e-42)", [](HardHead& head) { head.times(1e-42F); }},
      {"one row", [](HardHead& head) { head.keep(1); }},
      {"two rows", [](HardHead& head) { head.keep(2); }}};
  return kRows;
}

// What a policy is given of a head in one block, worked out by definition: float64 softmax of every query.
struct HardInput {
  explicit HardInput(const HardHead& head, const PolicyNeeds& needs) : rows(head) {
    const Eigen::Index n = rows.keys.rows();
    positions.resize(n);
    std::iota(positions.begin(), positions.end(), 0);
    last.assign(n, 0);
    sums.assign(n, 0);
    received.assign(n, 0);
    seen.resize(n);
    for (Eigen::Index row = 0; row < n; ++row) seen[row] = static_cast<std::int32_t>(n - row);
    for (const RowMatrixF& queries : rows.queries) add(queries, needs.window);
    if (needs.window_weights > 0)
      window_weights = weights_on_rows(last_queries(needs.window_weights), n, rules, rows.keys, positions);
    window_queries = last_queries(needs.window_queries);
    moments.resize(kGroup);
    for (std::size_t head_of_group = 0; head_of_group < moments.size(); ++head_of_group)
      moments[head_of_group].add(rows.queries[head_of_group], rotation);
  }

  PolicyInput view(std::int64_t budget) const {
    return {.keys = rows.keys,
            .values = rows.values,
            .positions = positions,
            .n_new_rows = rows.keys.rows(),
            .budget = budget,
            .last_row_group = last,
            .last_row_layer = last,
            .attention_received = received,
            .attention_queries = seen,
            .window_sums = sums,
            .group_size = kGroup,
            .window_queries = &window_queries,
            .window_weights = &window_weights,
            .rotation = &rotation,
            .query_moments = moments};
  }

  void add(const RowMatrixF& queries, int window) {
    const Eigen::Index n = rows.keys.rows();
    for (Eigen::Index query = 0; query < n; ++query) {
      Eigen::ArrayXd weights =
          (rows.keys.topRows(query + 1).cast<double>() * queries.row(query).cast<double>().transpose())
              .array() /
          2;
      weights = (weights - weights.maxCoeff<Eigen::PropagateNaN>()).exp().eval();
      weights /= weights.sum();
      for (Eigen::Index row = 0; row <= query; ++row) {
        const double share = weights[row] / kGroup;
        received[row] += share;
        if (query >= n - window) sums[row] += static_cast<float>(share);
        if (query == n - 1) last[row] += static_cast<float>(share);
      }
    }
  }

  RowMatrixD last_queries(int window) const {
    const Eigen::Index n = std::min<Eigen::Index>(std::max(1, window), rows.keys.rows());
    RowMatrixD all(kGroup * n, kWidth);
    for (Eigen::Index head = 0; head < kGroup; ++head)
      all.middleRows(head * n, n) = rows.queries[head].bottomRows(n).cast<double>();
    return all;
  }

  HardHead rows;
  Rotation rotation{{1.0, 0.01}};
  std::vector<AttentionRules> rules{{.scale = 0.5}, {.scale = 0.5}};
  std::vector<std::int32_t> positions, seen;
  std::vector<float> last, sums;
  std::vector<double> received;
  RowMatrixD window_queries, window_weights;
  std::vector<QueryMoments> moments;
};

// Every policy with its defaults, and where what it reads hangs on an option, with others.
const std::vector<std::string>& variants_of(const std::string& name) {
  static const std::map<std::string, std::vector<std::string>> kOthers{
      {"keydiff",
       {"keydiff", "keydiff:anchor=normalized-mean", "keydiff:anchor=median", "keydiff:anchor=pairwise",
        "keydiff:metric=dot", "keydiff:metric=euclidean,recent=0.5"}},
      {"tova", {"tova", "tova:heads=all"}},
      {"h2o", {"h2o", "h2o:recent=0.5,normalize=1"}},
      {"manifold", {"manifold", "manifold:window=4"}},
      {"cur", {"cur", "cur:window=4,sinks=2"}},
      {"lagkv", {"lagkv:sinks=1,lag=2", "lagkv:sinks=0,lag=1"}},
      {"triattention", {"triattention", "triattention:group=mean"}},
      {"compactor", {"compactor", "compactor:blend=0.5", "compactor:sketch=48", "compactor:sketch=2"}},
      {"defensive", {"defensive", "defensive:kernel=3"}},
      {"qfilters", {"qfilters:file=f"}},
      {"duo", {"duo:file=f"}}};
  static std::map<std::string, std::vector<std::string>> made;
  const auto other = kOthers.find(name);
  return other != kOthers.end() ? other->second : made.try_emplace(name, 1, name).first->second;
}

std::unique_ptr<Policy> policy_of(const std::string& text) {
  auto policy = make_policy(parse_policy(text), 5);
  if (policy != nullptr && policy->head_file() == HeadFile::kVectors)
    policy->take_file({RowMatrixF::Constant(1, kWidth, 0.5F)});
  if (policy != nullptr && policy->head_file() == HeadFile::kFlags)
    policy->take_file({RowMatrixF::Ones(1, 1)});
  return policy;
}

struct HardScores {
  std::vector<double> scores, value_norms;
  std::vector<std::uint8_t> forced;
};

HardScores scored(const Policy& policy, const HardInput& input, std::int64_t budget) {
  const auto n = static_cast<std::size_t>(input.rows.keys.rows());
  HardScores found{std::vector<double>(n), std::vector<double>(n), std::vector<std::uint8_t>(n)};
  policy.score(input.view(budget), found.scores);
  policy.force(input.view(budget), std::min<std::int64_t>(budget, std::ssize(found.scores)), found.forced);
  for (std::size_t row = 0; row < n; ++row)
    found.value_norms[row] = input.rows.values.row(static_cast<Eigen::Index>(row)).cast<double>().lpNorm<1>();
  return found;
}

// A selection of so many rows names every one of them once, in time order.
void expect_sound(const Selection& selection, std::size_t n_rows, const std::string& what) {
  std::vector<std::int32_t> all = selection.retained;
  EXPECT_TRUE(std::ranges::is_sorted(selection.retained)) << what;
  EXPECT_EQ(selection.margin.size(), selection.evicted.size()) << what;
  all.insert(all.end(), selection.evicted.begin(), selection.evicted.end());
  std::ranges::sort(all);
  std::vector<std::int32_t> expected(n_rows);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected) << what;
}

// Cuts two such heads and checks what stays.
void cut(const Slots& slots, const HardInput& input, const HardScores& found, std::int64_t budget,
         const std::string& what) {
  const RankedRows ranked{found.scores, found.forced, input.positions, found.value_norms};
  const std::vector<RankedRows> heads{ranked, ranked};
  const std::vector<std::vector<RankedRows>> layers(1, heads);
  const std::vector<std::int64_t> budgets{budget, budget};
  const std::int64_t n = std::ssize(found.scores);
  const LayerCut by{budgets, budget, n};
  const auto selections = slots.granularity == Slots::Granularity::kModel
                              ? select_model(slots, layers, by).front()
                              : select_layer(slots, heads, by);
  std::int64_t n_kept = 0;
  for (const Selection& selection : selections) {
    expect_sound(selection, found.scores.size(), what);
    // AdaKV leaves a fifth of N to either head, rounded up.
    const std::int64_t most =
        slots.deals_among_heads() ? 2 * budget - (budget + 4) / 5 : slots.most_rows(budget);
    EXPECT_LE(std::ssize(selection.retained), most) << what;
    n_kept += std::ssize(selection.retained);
  }
  if (slots.granularity != Slots::Granularity::kPage)
    EXPECT_EQ(n_kept, 2 * std::min(n, budget)) << what;
  else
    EXPECT_GT(n_kept, 0) << what;
}

// What a policy's cuts to budgets at every edge are refused with, by each of the slots; empty where they are
// not.
std::vector<std::string> refusals(const std::string& text, const std::vector<std::string>& slot_texts,
                                  const HardHead& head) {
  const auto policy = policy_of(text);
  const std::int64_t n = head.keys.rows();
  std::map<std::int64_t, HardScores> by_budget;
  std::optional<HardInput> input;
  const std::string unscored = refusal([&] {
    input.emplace(head, policy->needs());
    for (const std::int64_t budget : {std::int64_t{1}, n / 2, n - 1, n, n + 1})
      if (budget > 0) by_budget.emplace(budget, scored(*policy, *input, budget));
  });
  std::vector<std::string> found;
  for (const std::string& slot_text : slot_texts) {
    const Slots slots = read_slots(parse_policy(slot_text.empty() ? "sink" : "sink:" + slot_text));
    found.push_back(!unscored.empty() ? unscored : refusal([&] {
      for (const auto& [budget, scores] : by_budget)
        cut(slots, *input, scores, budget, text + " " + slot_text + ", budget " + std::to_string(budget));
    }));
  }
  return found;
}

std::vector<std::string> all_policies() {
  std::vector<std::string> names;
  for (const PolicyEntry& entry : registered_policies())
    if (entry.name != "none") names.push_back(entry.name);
  return names;
}

TEST(HardRows, EveryPolicyRanksOrRefusesAsThePageSays) {
  auto page = numbers_page("Policies");
  for (const HardRows& rows : hard_rows()) {
    HardHead head;
    rows.make(head);
    std::vector<std::string> refusing;
    for (const std::string& name : all_policies()) {
      const std::string first = refusals(variants_of(name).front(), {""}, head).front();
      for (const std::string& text : variants_of(name))
        for (const std::string& found : refusals(text,
                                                 {"", "protect=sinks:1+recent:1", "granularity=layer",
                                                  "granularity=page:2", "granularity=model", "split=adakv"},
                                                 head))
          EXPECT_EQ(found.empty(), first.empty()) << rows.name << ": " << text << ": " << first << found;
      if (!first.empty()) refusing.push_back(name);
    }
    EXPECT_EQ(page[rows.name], who_refuses(all_policies(), refusing, "rank")) << rows.name;
  }
}

// Where values weigh, rows are ranked by them, too.
TEST(HardRows, ValuesThatWeighMustBeFinite) {
  for (const HardRows& rows : hard_rows()) {
    HardHead head;
    rows.make(head);
    for (const std::string& found :
         refusals("sink",
                  {"critical=on", "critical=shift", "critical=on,granularity=layer",
                   "critical=on,granularity=page:2", "critical=on,split=adakv", "critical=shift,split=adakv"},
                  head))
      EXPECT_EQ(found.empty(), head.values.allFinite()) << rows.name << ": " << found;
  }
}

TEST(HardRows, AScoreIsTheSameBitsEveryTime) {
  for (const std::string& name : all_policies())
    for (const std::string& text : variants_of(name)) {
      const auto policy = policy_of(text), again = policy_of(text);
      const HardInput input(HardHead{}, policy->needs());
      const auto first = scored(*policy, input, 3).scores, second = scored(*again, input, 3).scores;
      for (std::size_t row = 0; row < first.size(); ++row) {
        EXPECT_EQ(std::bit_cast<std::uint64_t>(first[row]), std::bit_cast<std::uint64_t>(second[row]))
            << text;
        EXPECT_TRUE(std::isfinite(first[row])) << text;
      }
    }
}

// CAKE deals rows out by what layers' attention does; where that is no number, none of its shares means
// anything.
TEST(HardRows, CakeRefusesSharesThatAreNoNumbers) {
  const std::vector<std::int64_t> n_rows{9, 9};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double share : {std::numeric_limits<double>::quiet_NaN(), kInfinity})
    EXPECT_THROW(cake_budgets(std::vector{1.0, share}, 4, 1, n_rows), InvalidInput) << share;
  LayerPreference broken;
  broken.add(RowMatrixD::Constant(2, 3, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_THROW(cake_budgets(std::vector{1.0, broken.log_share({})}, 4, 1, n_rows), InvalidInput);
  EXPECT_EQ(cake_budgets(std::vector{-kInfinity, -kInfinity}, 4, 1, n_rows),
            (std::vector<std::int64_t>{4, 4}));
}

}  // namespace
}  // namespace keyscope::analysis
