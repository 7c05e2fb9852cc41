// KeyDiff's premise in the two demo models: it holds in one, and not in the other.

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "tests/support/cli.hpp"

namespace keyscope::test {
namespace {

using Json = nlohmann::json;

// The heads of a prompt under the full cache, but for layer 0, which looks at neighbours in both models.
std::vector<Json> later_heads(const std::string& model, const std::string& prompt) {
  const ScratchFolder folder;
  const std::string recording = (folder.path() / "none.h5").string();
  const CliResult capture =
      run_cli({"capture", "--model", model, "--prompt-file", kDemoModel + "/prompts/" + prompt, "--policy",
               "none", "--record", "keys,queries,attention", "--out", recording, "--quiet"});
  EXPECT_EQ(capture.status, 0) << capture.err;
  const CliResult analysis = run_cli({"analyze", recording, "--no-bounds", "--json", "-", "--quiet"});
  EXPECT_EQ(analysis.status, 0) << analysis.err;
  const Json report = parse_json(analysis.out);
  std::vector<Json> heads;
  for (const Json& head : report.at("runs").at(0).at("heads"))
    if (head.at("layer") != 0) heads.push_back(head);
  return heads;
}

double mean_of(const std::vector<Json>& heads, const std::string& field) {
  double sum = 0;
  for (const Json& head : heads) sum += head.at(field).get<double>();
  return sum / static_cast<double>(heads.size());
}

class DemoModels : public ::testing::TestWithParam<std::string> {};

TEST_P(DemoModels, EveryLaterHeadOfTheTwinHasASink) {
  const std::vector<Json> heads = later_heads(kDemoModel + "_sinks", GetParam());
  ASSERT_EQ(heads.size(), 12U);
  for (const Json& head : heads) {
    EXPECT_GT(head.at("sink_metric"), 0.5) << json_text(head);
    EXPECT_LT(head.at("key_query_mean_cosine"), -0.4) << json_text(head);
    EXPECT_GT(head.at("spearman"), 0.1) << json_text(head);
  }
  EXPECT_GT(mean_of(heads, "spearman"), 0.4);
}

TEST_P(DemoModels, KeysAndQueriesOfTheDemoModelAreNotOpposed) {
  const std::vector<Json> heads = later_heads(kDemoModel, GetParam());
  ASSERT_EQ(heads.size(), 12U);
  EXPECT_LT(mean_of(heads, "sink_metric"), 0.1);
  EXPECT_GT(mean_of(heads, "key_query_mean_cosine"), 0.3);
  EXPECT_LT(mean_of(heads, "spearman"), 0.2);
}

INSTANTIATE_TEST_SUITE_P(Prompts, DemoModels,
                         ::testing::Values("needle.txt", "needle_2048.txt", "phonebook.txt"),
                         [](const auto& test) { return test.param.substr(0, test.param.find('.')); });

}  // namespace
}  // namespace keyscope::test
