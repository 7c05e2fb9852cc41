#include "app/results/run_identity.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
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
  EXPECT_EQ(policy_json(analysis::parse_policy("sink"), 0), (Json{{"name", "sink"},
                                                                  {"options",
                                                                   {{"critical", "off"},
                                                                    {"first", "4"},
                                                                    {"granularity", "head"},
                                                                    {"protect", "none"},
                                                                    {"split", "uniform"}}}}));
  EXPECT_EQ(policy_json(analysis::parse_policy("sink:first=2"), 0)["options"]["first"], "2");
}

TEST(PolicyJson, HasTheRunsSeedWhereThePolicyHasNone) {
  EXPECT_EQ(policy_json(analysis::parse_policy("random"), 7)["options"]["seed"], "7");
  EXPECT_EQ(policy_json(analysis::parse_policy("random:seed=3"), 7)["options"]["seed"], "3");
}

// Results under a list that has changed since are not continued; a run that goes on says what it began with.
TEST(PolicyJson, NamesWhatItsFilesHold) {
  const test::ScratchFolder folder;
  const auto said = [&](const std::string& file, const std::string& text, const std::string& policy) {
    std::ofstream(folder.file(file)) << text;
    nlohmann::ordered_json json = policy_json(analysis::parse_policy(policy + folder.file(file).string()), 0);
    json.erase("options");  // which name the file
    return json;
  };
  for (const char* policy : {"duo:file=", "keydiff:split=file:"}) {
    const std::string name = policy[0] == 'd' ? "streams" : "weights";
    const auto first = said(name + "1", "[1, 0]", policy);
    EXPECT_EQ(first, said(name + "2", "[1, 0]", policy));
    EXPECT_NE(first, said(name + "3", "[0, 1]", policy));
    EXPECT_EQ(first, said(name + "1", "[0, 1]", policy));
  }
}

TEST(PolicyJson, RefusesWhatThereIsNot) { EXPECT_THROW(policy_json({"no-such", {}}, 0), UsageError); }

}  // namespace

}  // namespace keyscope::results
