#include "app/results/run_identity.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "analysis/policies/registry.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/model/model.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::results {

namespace {

TEST(Budget, RowsAreTheSameForEveryPrompt) {
  const Budget budget = parse_budget("64");
  EXPECT_EQ(budget.rows_for(100), 64);
  EXPECT_EQ(budget.rows_for(4000), 64);
  EXPECT_EQ(budget.text(), "64");
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

TEST(ModelIdentity, IsOfFolderFilesAndArithmetic) {
  const auto model = capture::Model::load(KEYSCOPE_SOURCE_DIR "/assets/demo_model/../demo_model/",
                                          {.dtype = capture::DType::kFloat32, .device = "cpu"});
  const ModelIdentity identity = identity_of(*model);
  EXPECT_EQ(identity.name, "demo_model");
  EXPECT_EQ(identity.sha256, model->model_sha256());
  EXPECT_EQ(identity.sha256.size(), 64U);
  EXPECT_EQ(identity.weights_sha256, capture::sha256_with_weights(*model));
  EXPECT_NE(identity.weights_sha256, identity.sha256);
  EXPECT_EQ(identity.dtype, "float32");
  EXPECT_EQ(identity.device, "cpu");
}

TEST(ModelIdentity, IsUtf8WhateverTheFolderIsCalled) {
  const test::ScratchFolder scratch;
  const std::filesystem::path folder = scratch.path() / "mod\xE9l";
  std::filesystem::copy(KEYSCOPE_SOURCE_DIR "/assets/demo_model", folder,
                        std::filesystem::copy_options::recursive);
  const auto model = capture::Model::load(folder, {.dtype = capture::DType::kFloat32, .device = "cpu"});
  EXPECT_EQ(identity_of(*model).name, "mod\uFFFDl");
}

// Both demo models have one configuration and one header.
TEST(ModelIdentity, TellsModelsOfOneArchitectureApart) {
  const auto identity = [](const char* folder) {
    return identity_of(*capture::Model::load(std::string(KEYSCOPE_SOURCE_DIR "/assets/") + folder,
                                             {.dtype = capture::DType::kFloat32, .device = "cpu"}));
  };
  const ModelIdentity one = identity("demo_model"), other = identity("demo_model_sinks");
  EXPECT_EQ(one.sha256, other.sha256);
  EXPECT_NE(one.weights_sha256, other.weights_sha256);
}

TEST(ModelIdentity, StandsBesideOtherSettings) {
  nlohmann::ordered_json settings{{"format", 1}};
  add_identity(settings, {"tiny", "ab12", "cd34", "bfloat16", "cuda"});
  EXPECT_EQ(json_text(settings),
            R"({"format":1,"model":"tiny","model_sha256":"ab12","weights_sha256":"cd34",)"
            R"("dtype":"bfloat16","device":"cuda"})");
}

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
