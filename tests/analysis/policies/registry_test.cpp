#include "analysis/policies/registry.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/policies/policy.hpp"
#include "analysis/policies/row_selection.hpp"
#include "base/errors.hpp"
#include "tests/support/sample_rows.hpp"

namespace keyscope::analysis {

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Options = std::map<std::string, std::string>;

TEST(Registry, ReadsNameAndOptions) {
  const PolicySpec spec = parse_policy("keydiff:anchor=median,recent=0.25");
  EXPECT_EQ(spec.name, "keydiff");
  EXPECT_EQ(spec.options, (Options{{"anchor", "median"}, {"recent", "0.25"}}));
  EXPECT_TRUE(parse_policy("none").options.empty());
}

TEST(Registry, FillsInDefaults) {
  const auto with_slots = [](Options own) {
    own.insert({{"protect", "none"}, {"granularity", "head"}, {"split", "uniform"}, {"critical", "off"}});
    return own;
  };
  EXPECT_EQ(with_defaults(parse_policy("keydiff:recent=0.1"), 0).options,
            with_slots({{"anchor", "mean"}, {"metric", "cosine"}, {"recent", "0.1"}}));
  EXPECT_EQ(with_defaults(parse_policy("sink"), 0).options, with_slots({{"first", "4"}}));
  EXPECT_EQ(with_defaults(parse_policy("tova"), 0).options, with_slots({{"heads", "group"}}));
  EXPECT_EQ(with_defaults(parse_policy("random"), 17).options, with_slots({{"seed", "17"}}));
  EXPECT_EQ(with_defaults(parse_policy("random:seed=3"), 17).options, with_slots({{"seed", "3"}}));
  EXPECT_EQ(with_defaults(parse_policy("manifold:split=adakv"), 0).options.at("split"), "adakv");
  EXPECT_TRUE(with_defaults(parse_policy("none"), 0).options.empty());
}

// A policy of its user's own stays itself, with the slots that every scorer takes.
TEST(Registry, FillsInSlotsOfAUsersOwnPolicy) {
  const std::shared_ptr<const Policy> own = make_policy(parse_policy("sink"), 0);
  const PolicySpec filled = with_defaults({"mine", {{"granularity", "layer"}}, own, "called so"}, 0);
  EXPECT_EQ(filled.own, own);
  EXPECT_EQ(filled.run_name(), "called so");
  EXPECT_EQ(
      filled.options,
      (Options{{"protect", "none"}, {"granularity", "layer"}, {"split", "uniform"}, {"critical", "off"}}));
}

TEST(Registry, MakesEveryPolicyButNone) {
  for (const auto& entry : registered_policies()) {
    EXPECT_FALSE(entry.summary.empty());
    const std::string text = entry.required.empty() ? entry.name : entry.name + ":file=f.json";
    EXPECT_EQ(make_policy(parse_policy(text), 0) == nullptr, entry.name == "none") << entry.name;
    if (!entry.required.empty()) {
      EXPECT_THAT([&] { parse_policy(entry.name); },
                  ThrowsMessage<UsageError>(HasSubstr("needs file=PATH; it takes file=PATH")));
    }
  }
}

TEST(Registry, ListsWhatIsAccepted) {
  const auto entries = registered_policies();
  const auto sink =
      std::find_if(entries.begin(), entries.end(), [](const auto& e) { return e.name == "sink"; });
  ASSERT_NE(sink, entries.end());
  EXPECT_EQ(sink->option_keys, std::vector<std::string>{"first=0…"});
}

TEST(Registry, SaysWhatAPolicyNeeds) {
  EXPECT_FALSE(make_policy(parse_policy("keydiff"), 0)->needs().attention());
  EXPECT_TRUE(make_policy(parse_policy("tova"), 0)->needs().last_row_group);
  EXPECT_TRUE(make_policy(parse_policy("tova:heads=all"), 0)->needs().last_row_layer);
}

TEST(Registry, RefusalsNameWhatIsAccepted) {
  const auto expect = [](const char* text, const char* part, const char* other) {
    EXPECT_THAT([&] { parse_policy(text); },
                ThrowsMessage<UsageError>(AllOf(HasSubstr(part), HasSubstr(other))))
        << text;
  };
  expect("keydif", "\"keydif\" is not known",
         "none, keydiff, sink, l2norm, tova, h2o, snapkv, random, manifold, cur, leverage, logdet, lagkv");
  expect("", "\"\" is not known", "keydiff");
  expect("KeyDiff", "is not known", "keydiff");
  expect("keydiff:anker=mean", "no option \"anker\"", "anchor=mean|normalized-mean|median|pairwise");
  expect("none:first=4", "no option \"first\"", "it takes none");
  expect("keydiff:anchor=centroid", "anchor=centroid", "mean, normalized-mean, median, pairwise");
  expect("keydiff:anchor=pairwise,metric=dot", "metric=cosine only", "dot");
  expect("tova:heads=", "heads=", "group, all");
  expect("sink:first=4,first=5", "twice", "first");
}

TEST(Registry, RefusesHalfWrittenOptions) {
  for (const char* text : {"sink:", "sink:first", "sink:=4", "sink:,", "sink:first=4,",
                           "sink:first=4,,first=4", ":first=4", " sink", "sink:first=4 ", "sink:first= 4"})
    EXPECT_THROW(parse_policy(text), UsageError) << text;
}

TEST(Registry, NumbersAreReadWhole) {
  for (const char* text : {"sink:first=4abc",
                           "sink:first=-1",
                           "sink:first=+4",
                           "sink:first=4.0",
                           "sink:first=0x4",
                           "sink:first=99999999999",
                           "sink:first=18446744073709551620",
                           "random:seed=18446744073709551616",
                           "random:seed=-1",
                           "random:seed=",
                           "keydiff:recent=1.01",
                           "keydiff:recent=-0.1",
                           "keydiff:recent=nan",
                           "keydiff:recent=inf",
                           "keydiff:recent=0.1x",
                           "keydiff:recent=",
                           "keydiff:recent=1e999",
                           "keydiff:recent=10%",
                           "logdet:ridge=0",
                           "logdet:ridge=-1",
                           "logdet:ridge=inf",
                           "logdet:ridge=nan"})
    EXPECT_THROW(parse_policy(text), UsageError) << text;
  for (const char* text : {"sink:first=0", "random:seed=18446744073709551615", "keydiff:recent=1",
                           "keydiff:recent=1e-1", "logdet:ridge=1e-9"})
    EXPECT_NO_THROW(parse_policy(text)) << text;
}

using Rows = std::vector<std::int32_t>;
using Marks = std::vector<std::uint8_t>;

Selection select(const std::vector<double>& scores, std::int64_t budget, const Rows& forced = {}) {
  Marks marks(scores.size());
  for (const auto row : forced) marks[row] = 1;
  return select_rows(scores, marks, budget);
}

TEST(Selection, KeepsTheLargestInTimeOrder) {
  const Selection selection = select({0.5, 0.9, 0.1, 0.7}, 2);
  EXPECT_EQ(selection.retained, (Rows{1, 3}));
  EXPECT_EQ(selection.evicted, (Rows{0, 2}));
  EXPECT_FLOAT_EQ(selection.margin[0], 0.2F);
  EXPECT_FLOAT_EQ(selection.margin[1], 0.6F);
}

TEST(Selection, TiesGoToTheLowerRow) {
  EXPECT_EQ(select({1, 1, 1, 1, 1}, 3).retained, (Rows{0, 1, 2}));
  EXPECT_EQ(select({0, 1, 0, 1, 0}, 3).retained, (Rows{0, 1, 3}));
  EXPECT_EQ(select({-0.0, 0.0, 0.0}, 1).retained, (Rows{0}));
}

TEST(Selection, ForcedRowsComeFirstAndCountWithinTheBudget) {
  const Selection selection = select({0.9, 0.1, 0.5, 0.7}, 2, {1});
  EXPECT_EQ(selection.retained, (Rows{0, 1}));
  EXPECT_FLOAT_EQ(selection.margin[1], 0.2F) << "against 0.9, the lowest that was not forced";
}

TEST(Selection, MarginIsNaNWhereAllRetainedWereForced) {
  const Selection selection = select({5, 1, 2}, 2, {1, 2});
  EXPECT_EQ(selection.retained, (Rows{1, 2}));
  ASSERT_EQ(selection.margin.size(), 1U);
  EXPECT_TRUE(std::isnan(selection.margin[0]));
}

TEST(Selection, NothingGoesWithinTheBudget) {
  EXPECT_EQ(select({3, 1, 2}, 3).retained, (Rows{0, 1, 2}));
  EXPECT_EQ(select({3, 1, 2}, 100).retained, (Rows{0, 1, 2}));
  EXPECT_TRUE(select({3, 1, 2}, 3).evicted.empty());
  EXPECT_TRUE(select({}, 1).retained.empty());
}

TEST(Selection, EqualsAStableSortOnManyTies) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto scores = sample_uniform(seed, 40);
    for (double& score : scores) score = std::floor(score * 6);
    Marks forced(40);
    for (std::size_t i = 0; i < 40; ++i) forced[i] = sample_uniform(seed + 1000, 40)[i] < 0.1 ? 1 : 0;
    const auto n_forced = std::count(forced.begin(), forced.end(), 1);
    const std::int64_t budget = std::max<std::int64_t>(n_forced, 1 + static_cast<std::int64_t>(seed % 39));
    Rows expected(40);
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](std::int32_t a, std::int32_t b) {
      const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
      return forced[i] != forced[j] ? forced[i] > forced[j] : scores[i] > scores[j];
    });
    expected.resize(budget);
    std::sort(expected.begin(), expected.end());
    const Selection selection = select_rows(scores, forced, budget);
    EXPECT_EQ(selection.retained, expected) << "seed " << seed;
    EXPECT_EQ(selection.evicted.size(), 40 - static_cast<std::size_t>(budget));
    for (const float margin : selection.margin) EXPECT_FALSE(margin < 0);
  }
}

TEST(Selection, RefusesWhatHasNoOrder) {
  EXPECT_THROW(select({1, std::numeric_limits<double>::quiet_NaN()}, 1), InvalidInput);
  EXPECT_THROW(select({1, std::numeric_limits<double>::infinity()}, 1), InvalidInput);
  EXPECT_THROW(select({1, 2}, 0), InvalidInput);
  EXPECT_THROW(select({1, 2}, -3), InvalidInput);
  EXPECT_THROW(select({1, 2, 3}, 1, {0, 1}), InvalidInput);
  EXPECT_THROW(select_rows(std::vector<double>{1, 2}, Marks(3), 1), InvalidInput);
}

TEST(Budget, RowsAreTheSameForEveryPrompt) {
  const Budget budget = parse_budget("64");
  EXPECT_EQ(budget.rows_for(100), 64);
  EXPECT_EQ(budget.rows_for(4000), 64);
  EXPECT_EQ(budget.text(), "64");
}

TEST(Budget, RowsAreAsManyAsCanBeCountedWith) {
  EXPECT_EQ(parse_budget("2147483648").rows, kMostBudgetRows);
  for (const char* text : {"2147483649", "9223372036854775807", "9223372036854775808"})
    EXPECT_THROW(parse_budget(text), UsageError) << text;
}

TEST(Budget, AShareIsRoundedHalfUpAndNeverNothing) {
  const Budget budget = parse_budget("0.25");
  EXPECT_EQ(budget.rows_for(100), 25);
  EXPECT_EQ(budget.rows_for(102), 26);
  EXPECT_EQ(budget.rows_for(101), 25);
  EXPECT_EQ(budget.rows_for(1), 1);
  EXPECT_EQ(budget.text(), "0.25");
  EXPECT_EQ(parse_budget("25%").rows_for(102), 26);
  EXPECT_EQ(parse_budget("12.5%").text(), "0.125");
}

// Against whole numbers, for every whole percent.
TEST(Budget, HalfARowIsRoundedUpWhateverTheShare) {
  for (std::int64_t percent = 1; percent <= 100; ++percent) {
    const Budget budget = parse_budget(std::to_string(percent) + "%");
    for (std::int64_t n = 1; n <= 1000; ++n)
      ASSERT_EQ(budget.rows_for(n), std::max<std::int64_t>(1, (2 * percent * n + 100) / 200))
          << percent << " % of " << n;
  }
}

TEST(Budget, AllOfThePromptIsAShare) {
  for (const char* text : {"100%", "1.0"}) {
    const Budget budget = parse_budget(text);
    EXPECT_EQ(budget.rows_for(77), 77);
    EXPECT_EQ(parse_budget(budget.text()).rows_for(77), 77);
  }
  EXPECT_EQ(parse_budget("1").rows_for(77), 1);
}

TEST(Budget, AnythingElseIsRefused) {
  for (const char* text : {"", "0", "-3", "1.5", "0.0", "101%", "0%", "25%%", "%", "64 rows", "nan", "x"})
    EXPECT_THROW(parse_budget(text), UsageError) << text;
}

}  // namespace

}  // namespace keyscope::analysis
