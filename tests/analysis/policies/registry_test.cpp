#include "analysis/policies/registry.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

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
  EXPECT_EQ(with_defaults(parse_policy("keydiff:recent=0.1"), 0).options,
            (Options{{"anchor", "mean"}, {"metric", "cosine"}, {"recent", "0.1"}}));
  EXPECT_EQ(with_defaults(parse_policy("sink"), 0).options, (Options{{"first", "4"}}));
  EXPECT_EQ(with_defaults(parse_policy("tova"), 0).options, (Options{{"heads", "group"}}));
  EXPECT_EQ(with_defaults(parse_policy("random"), 17).options, (Options{{"seed", "17"}}));
  EXPECT_EQ(with_defaults(parse_policy("random:seed=3"), 17).options, (Options{{"seed", "3"}}));
  EXPECT_TRUE(with_defaults(parse_policy("none"), 0).options.empty());
}

TEST(Registry, MakesEveryPolicyButNone) {
  for (const auto& entry : registered_policies()) {
    const auto policy = make_policy(parse_policy(entry.name), 0);
    EXPECT_EQ(policy == nullptr, entry.name == "none") << entry.name;
    EXPECT_FALSE(entry.summary.empty());
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
         "none, keydiff, sink, l2norm, tova, h2o, snapkv, random, manifold, cur, leverage, logdet");
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
  for (const char* text :
       {"sink:first=4abc", "sink:first=-1", "sink:first=+4", "sink:first=4.0", "sink:first=0x4",
        "sink:first=99999999999", "sink:first=18446744073709551620", "random:seed=18446744073709551616",
        "random:seed=-1", "random:seed=", "keydiff:recent=1.01", "keydiff:recent=-0.1", "keydiff:recent=nan",
        "keydiff:recent=inf", "keydiff:recent=0.1x", "keydiff:recent=", "keydiff:recent=1e999",
        "keydiff:recent=10%"})
    EXPECT_THROW(parse_policy(text), UsageError) << text;
  for (const char* text :
       {"sink:first=0", "random:seed=18446744073709551615", "keydiff:recent=1", "keydiff:recent=1e-1"})
    EXPECT_NO_THROW(parse_policy(text)) << text;
}

}  // namespace
}  // namespace keyscope::analysis
