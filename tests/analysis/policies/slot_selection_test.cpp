#include "analysis/policies/slot_selection.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "analysis/policies/slots.hpp"
#include "base/errors.hpp"
#include "tests/support/goldens.hpp"

namespace keyscope::analysis {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using Rows = std::vector<std::int32_t>;

Slots slots_by(const std::string& options) { return read_slots(parse_policy("keydiff:" + options)); }

// One of the goldens' cases, as NumPy has it.
struct Golden {
  explicit Golden(const json& from)
      : positions(from.at("positions")), n_prompt(from.at("n_prompt")), forced(positions.size()) {
    for (const json& layer : from.at("scores"))
      scores.push_back(layer.get<std::vector<std::vector<double>>>());
  }

  std::vector<std::vector<RankedRows>> rows() const {
    std::vector<std::vector<RankedRows>> layers;
    for (const auto& layer : scores) {
      auto& heads = layers.emplace_back();
      for (const auto& head : layer) heads.push_back({head, forced, positions});
    }
    return layers;
  }

  Rows positions;
  std::int64_t n_prompt;
  std::vector<std::uint8_t> forced;
  std::vector<std::vector<std::vector<double>>> scores;  // [layer][head][row]
};

Rows at(const Rows& positions, const Rows& rows) {
  Rows found;
  for (const std::int32_t row : rows) found.push_back(positions[row]);
  return found;
}

// What CAKE makes of [layer][query head][query][row].
std::vector<double> shares_of(const json& attention, const CakeTemperatures& temperatures) {
  std::vector<double> shares;
  for (const json& layer : attention) {
    LayerPreference preference;
    for (const json& head : layer) {
      RowMatrixD weights(head.size(), head.front().size());
      for (Eigen::Index query = 0; query < weights.rows(); ++query)
        for (Eigen::Index row = 0; row < weights.cols(); ++row) weights(query, row) = head[query][row];
      preference.add(weights);
    }
    shares.push_back(preference.log_share(temperatures));
  }
  return shares;
}

// Whether a selection is one of all rows: none missing, none twice.
void expect_whole(const Selection& selection, std::size_t n_rows) {
  Rows all = selection.retained;
  all.insert(all.end(), selection.evicted.begin(), selection.evicted.end());
  std::ranges::sort(all);
  Rows expected(n_rows);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
  EXPECT_EQ(selection.margin.size(), selection.evicted.size());
}

// Against the rows themselves, of which there would be as many as the budget.
TEST(SlotSelection, ProtectedRowsAreCountedWithoutThem) {
  for (const char* protect :
       {"none", "sinks:4", "recent:10%", "recent:32", "sinks:4+recent:25%", "boundaries:10%",
        "sinks:64+recent:64", "sinks:2+boundaries:25%", "sinks:4+recent:3+boundaries:33%"})
    for (std::int64_t budget = 1; budget < 200; budget += 1 + budget / 7) {
      const Slots slots = slots_by(std::string("protect=") + protect);
      std::vector<std::int32_t> positions(static_cast<std::size_t>(budget));
      std::iota(positions.begin(), positions.end(), 0);
      EXPECT_EQ(
          protected_everywhere(slots.protect, budget),
          std::ssize(protected_rows(slots.protect, {.budgets = {}, .nominal = budget}, positions, budget)))
          << protect << " " << budget;
    }
  EXPECT_EQ(protected_everywhere(slots_by("protect=sinks:4").protect, kMostBudgetRows), 4);
}

TEST(SlotSelection, KeepTheRowsThatNumPyKeeps) {
  int n_compared = 0;
  for (const json& from : read_goldens("../policies/goldens/slots.json", "cases")) {
    const Golden golden(from);
    const auto layers = golden.rows();
    const std::size_t n_rows = golden.positions.size();
    for (const json& policy : from.at("policies")) {
      const Slots slots = slots_by("protect=" + policy.at("protect").get<std::string>() +
                                   ",granularity=" + policy.at("granularity").get<std::string>() +
                                   ",split=" + policy.at("split").get<std::string>());
      const std::int64_t nominal = policy.at("budget");
      const std::vector<std::int64_t> budgets = policy.at("budgets");
      const LayerCut all{.budgets = {}, .nominal = nominal, .n_prompt = golden.n_prompt};
      EXPECT_EQ(at(golden.positions, protected_rows(slots.protect, all, golden.positions, nominal)),
                policy.at("protected").get<Rows>());
      if (slots.split == Slots::Split::kPyramid) {
        const auto w = std::ssize(policy.at("protected").get<Rows>());
        EXPECT_EQ(pyramid_budgets(std::ssize(budgets), nominal, w, golden.n_prompt), budgets);
      }
      if (slots.split == Slots::Split::kCake) {
        const auto shares = shares_of(from.at("attention"), slots.cake);
        const std::vector<std::int64_t> held(budgets.size(), std::ssize(golden.positions));
        EXPECT_EQ(protected_everywhere(slots.protect, nominal),
                  std::ssize(policy.at("protected").get<Rows>()));
        EXPECT_EQ(
            cake_budgets(shares, nominal, protected_everywhere(slots.protect, nominal), held, slots.unit()),
            budgets);
        for (std::size_t layer = 0; layer < shares.size(); ++layer)
          EXPECT_NEAR(shares[layer], std::log(from.at("cake_shares").at(layer).get<double>()), 1e-8);
      }
      std::vector<std::vector<Selection>> selections;
      for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        const std::vector<std::int64_t> own(layers[layer].size(), budgets[layer]);
        selections.push_back(select_layer(slots, layers[layer], {own, nominal, golden.n_prompt}));
      }
      if (slots.granularity == Slots::Granularity::kModel)
        selections = select_model(slots, layers, {budgets, nominal, golden.n_prompt});
      for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        if (static_cast<std::int64_t>(n_rows) <= budgets[layer]) continue;
        for (std::size_t head = 0; head < layers[layer].size(); ++head) {
          const json& expected = policy.at("retained").at(layer);
          EXPECT_EQ(at(golden.positions, selections[layer][head].retained),
                    (slots.joint() ? expected : expected.at(head)).get<Rows>())
              << from.at("name") << ' ' << policy.at("protect") << ' ' << policy.at("granularity") << ' '
              << policy.at("split") << " N = " << nominal << ", layer " << layer << ", head " << head;
          expect_whole(selections[layer][head], n_rows);
          ++n_compared;
        }
      }
    }
  }
  EXPECT_GT(n_compared, 4000);
}

// Sums over the window, mean over the group.
std::vector<double> window_attention(const json& attention) {
  std::vector<double> sums(attention.front().front().size());
  for (const json& head : attention)
    for (const json& query : head)
      for (std::size_t row = 0; row < sums.size(); ++row)
        sums[row] += query[row].get<double>() / static_cast<double>(attention.size());
  return sums;
}

TEST(SlotSelection, WeighValuesAsNumPyDoes) {
  int n_compared = 0;
  for (const json& from : read_goldens("../policies/goldens/scorers.json", "cases")) {
    const Rows positions = from.at("positions");
    const std::vector<double> norms = from.at("output_norms");
    std::map<std::string, std::vector<double>> scores{{"window", window_attention(from.at("attention"))}};
    for (const json& golden : from.at("scorers")) {
      const std::string name = golden.at("policy");
      if (name == "keydiff") scores[name] = golden.at("scores").get<std::vector<double>>();
      if (!name.starts_with("critical:")) continue;
      const bool shift = name.ends_with(",shift");
      const std::string scorer = name.substr(9, name.find(',') - 9);
      const Slots slots = slots_by(shift ? "critical=shift" : "critical=on");
      const std::vector<std::uint8_t> forced(positions.size());
      const std::vector<RankedRows> heads{{scores.at(scorer), forced, positions, norms}};
      for (const json& set : golden.at("sets")) {
        if (!set.at("gap").is_null() && set.at("gap").get<double>() < 1e-5) continue;
        const std::vector<std::int64_t> budgets{set.at("budget").get<std::int64_t>()};
        const Selection selection = select_layer(slots, heads, {budgets, budgets.front()}).front();
        EXPECT_EQ(at(positions, selection.retained), set.at("retained").get<Rows>())
            << from.at("name") << ' ' << name << " N = " << budgets.front();
        ++n_compared;
      }
    }
  }
  EXPECT_GE(n_compared, 25);
}

TEST(SlotSelection, ValuesThatWeighNeedNorms) {
  const Rows positions{0, 1, 2};
  const std::vector<std::uint8_t> forced(3);
  const std::vector<double> scores{3, 2, 1}, norms{1, 1, 5};
  const std::vector<std::int64_t> budgets{2};
  const std::vector<RankedRows> with{{scores, forced, positions, norms}},
      without{{scores, forced, positions}};
  EXPECT_THAT(select_layer(slots_by("critical=on"), with, {budgets, 2}).front().retained, ElementsAre(0, 2));
  EXPECT_THAT(select_layer(slots_by("critical=off"), with, {budgets, 2}).front().retained, ElementsAre(0, 1));
  EXPECT_THROW(select_layer(slots_by("critical=on"), without, {budgets, 2}), InvalidInput);
}

// Of two rows with one score below 0, the value that weighs less stays, unless the least score is taken off.
TEST(SlotSelection, ShiftingLetsValuesSpeakForTheirRows) {
  const Rows positions{0, 1, 2, 3};
  const std::vector<std::uint8_t> forced(4);
  const std::vector<double> scores{-0.1, -0.5, -0.5, -0.9}, norms{1, 4, 2, 1};
  const std::vector<std::int64_t> budgets{2};
  const std::vector<RankedRows> heads{{scores, forced, positions, norms}};
  EXPECT_THAT(select_layer(slots_by("critical=shift"), heads, {budgets, 2}).front().retained,
              ElementsAre(0, 1));
  EXPECT_THAT(select_layer(slots_by("critical=on"), heads, {budgets, 2}).front().retained, ElementsAre(0, 3));
}

std::vector<double> draws(std::int64_t n, std::uint64_t seed) {
  std::vector<double> scores;
  for (std::int64_t i = 0; i < n; ++i)
    scores.push_back(uniform_draw(seed, 0, 0, static_cast<std::int32_t>(i)));
  return scores;
}

TEST(SlotSelection, NeutralOnesKeepWhatTheScorerKeeps) {
  Rows positions(90);
  std::iota(positions.begin(), positions.end(), 7);
  std::vector<std::uint8_t> forced(90);
  forced[3] = forced[80] = 1;
  const std::vector<double> a = draws(90, 1), b = draws(90, 2);
  const std::vector<RankedRows> heads{{a, forced, positions}, {b, forced, positions}};
  const std::vector<std::int64_t> budgets{20, 31};
  const auto selections = select_layer(Slots(), heads, {budgets, 31});
  for (std::size_t head = 0; head < heads.size(); ++head) {
    const Selection own = select_rows(heads[head].scores, forced, budgets[head]);
    EXPECT_EQ(selections[head].retained, own.retained);
    EXPECT_EQ(selections[head].margin, own.margin);
  }
}

TEST(SlotSelection, AdaKvMarginsAreOfTheWholeLayer) {
  const Rows positions{0, 1, 2, 3, 4};
  const std::vector<std::uint8_t> forced(5);
  const std::vector<double> high{9, 8, 7, 6, 5}, low{1, 0.5, 0.25, 0.125, 0};
  const std::vector<RankedRows> heads{{high, forced, positions}, {low, forced, positions}};
  const std::vector<std::int64_t> budgets{3, 3};
  const auto selections = select_layer(slots_by("split=adakv"), heads, {budgets, 3});
  EXPECT_THAT(selections[0].retained, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(selections[1].retained, ElementsAre(0));  // its floor: a fifth of 3, rounded up
  EXPECT_THAT(selections[1].margin, ElementsAre(4.5F, 4.75F, 4.875F, 5.0F));
}

// With one row a head the floors take all there is: what goes is held against the worst row that a floor
// kept.
TEST(SlotSelection, AdaKvMarginsAreAgainstTheWorstFloorWhereNothingElseStays) {
  const Rows positions{0, 1};
  const std::vector<std::uint8_t> forced(2);
  const std::vector<double> high{5, 1}, low{2, 3};
  const std::vector<RankedRows> heads{{high, forced, positions}, {low, forced, positions}};
  const std::vector<std::int64_t> budgets{1, 1};
  const auto selections = select_layer(slots_by("split=adakv"), heads, {budgets, 3});
  EXPECT_THAT(selections[0].margin, ElementsAre(2.0F));
  EXPECT_THAT(selections[1].margin, ElementsAre(1.0F));
}

TEST(SlotSelection, KeepOnePageWhereTheBudgetIsOne) {
  const Slots pages = slots_by("granularity=page:16");
  for (const auto& [budget, most] : {std::pair{1, 16}, {16, 16}, {31, 16}, {32, 32}})
    EXPECT_EQ(pages.most_rows(budget), most) << budget;
}

TEST(SlotSelection, APageThatIsBeingFilledStays) {
  Rows positions(37);
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<std::uint8_t> forced(37);
  std::vector<double> scores(37, 0);
  std::fill(scores.begin(), scores.begin() + 16, 1);
  std::fill(scores.begin() + 32, scores.end(), -1);
  const std::vector<RankedRows> heads{{scores, forced, positions}};
  const std::vector<std::int64_t> budgets{40};
  const auto selection = select_layer(slots_by("granularity=page:16"), heads, {budgets, 40}).front();
  EXPECT_EQ(selection.retained.size(), 21u);
  EXPECT_EQ(selection.retained.back(), 36);
  EXPECT_THAT(selection.evicted, testing::Each(testing::AllOf(testing::Ge(16), testing::Lt(32))));
  EXPECT_EQ(selection.margin.front(), 1);  // to the page that was kept for its score
  const Slots slots = slots_by("granularity=page:16");
  const std::vector<std::int64_t> full{32}, more{33};
  EXPECT_FALSE(slots.due(full, budgets));
  EXPECT_TRUE(slots.due(more, budgets));
}

TEST(SlotSelection, HeadsOfOneSetMustHoldTheSameRows) {
  const Rows positions{0, 1, 2}, others{0, 1, 3};
  const std::vector<std::uint8_t> forced(3);
  const std::vector<double> scores{3, 2, 1};
  const std::vector<RankedRows> heads{{scores, forced, positions}, {scores, forced, others}};
  const std::vector<std::int64_t> budgets{2, 2};
  EXPECT_THROW(select_layer(slots_by("granularity=layer"), heads, {budgets, 2}), InvalidInput);
}

}  // namespace
}  // namespace keyscope::analysis
