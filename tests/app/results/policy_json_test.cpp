#include "app/results/policy_json.hpp"

#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "analysis/policies/registry.hpp"

namespace keyscope::results {
namespace {

using Json = nlohmann::ordered_json;

TEST(PolicyJson, NamesOptionsThatWereNotGiven) {
  EXPECT_EQ(policy_json(analysis::parse_policy("sink"), 0),
            (Json{{"name", "sink"}, {"options", {{"first", "4"}}}}));
  EXPECT_EQ(policy_json(analysis::parse_policy("sink:first=2"), 0)["options"]["first"], "2");
}

TEST(PolicyJson, HasTheRunsSeedWhereThePolicyHasNone) {
  EXPECT_EQ(policy_json(analysis::parse_policy("random"), 7)["options"]["seed"], "7");
  EXPECT_EQ(policy_json(analysis::parse_policy("random:seed=3"), 7)["options"]["seed"], "3");
}

TEST(PolicyJson, RefusesWhatThereIsNot) { EXPECT_THROW(policy_json({"no-such", {}}, 0), UsageError); }

}  // namespace
}  // namespace keyscope::results
