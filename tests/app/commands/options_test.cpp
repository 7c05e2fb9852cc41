#include "app/commands/options.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cli.hpp"

namespace keyscope::test {

// What cannot be meant is said, with what could be.

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Options, AnUnknownSubcommandIsNamed) {
  const CliResult result = run_cli({"nosuch", "--help"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("'nosuch'"), HasSubstr("capture"), HasSubstr("tokenize")));
}

TEST(Options, CountsSayTheirRange) {
  for (const char* option : {"--budget", "--block", "--max-tokens", "--threads", "--score-last"}) {
    const CliResult result =
        run_cli({"capture", "--model", kDemoModel, "--prompt", "x", "--dry-run", option, "0"});
    EXPECT_EQ(result.status, 2) << option;
    EXPECT_THAT(result.err, AllOf(HasSubstr("keyscope: "), HasSubstr(option), HasSubstr("1 or more")));
    EXPECT_LT(result.err.size(), 200U) << option;
  }
  EXPECT_EQ(run_cli({"capture", "--model", kDemoModel, "--prompt", "x", "--dry-run", "--seed", "-1"}).status,
            2);
}

TEST(Options, AnEmptyListIsNotAll) {
  const CliResult result =
      run_cli({"capture", "--model", kDemoModel, "--prompt", "x", "--dry-run", "--layers", ""});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--layers"));
}

TEST(Options, ALookThatAFigureLacksIsRefused) {
  const CliResult result = run_cli({"figure", "a.h5", "keyspace", "--retained", "--out", "a.png"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--retained"), HasSubstr("cosine-matrix")));
}

TEST(Options, OnlyCosinesHaveAnOrder) {
  const CliResult foreign =
      run_cli({"figure", "a.h5", "attention", "--order", "dendrogram", "--out", "a.png"});
  EXPECT_EQ(foreign.status, 2);
  EXPECT_THAT(foreign.err, AllOf(HasSubstr("--order"), HasSubstr("cosine-matrix")));
  const CliResult unknown = run_cli({"figure", "a.h5", "cosine-matrix", "--order", "time", "--out", "a.png"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("--order"), HasSubstr("dendrogram")));
}

TEST(Options, LiveOptionsNeedAModel) {
  const CliResult result = run_cli({"view", "a.h5", "--policy", "keydiff"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--policy"), HasSubstr("--model")));
}

TEST(Options, APolicyWithoutBudgetIsWrongUsageOfTheWindowToo) {
  EXPECT_EQ(run_cli({"view", "--model", kDemoModel, "--prompt", "x", "--policy", "keydiff"}).status, 2);
}

TEST(Options, APromptThatIsNoTextIsRefused) {
  const ScratchFolder folder;
  const std::string bad = folder.file("bad.txt").string();
  std::ofstream(bad) << "fine \xff\xfe";
  for (const auto& path : {bad, folder.path().string()})
    for (const char* command : {"capture", "tokenize"}) {
      std::vector<std::string> arguments{command, "--model", kDemoModel, "--prompt-file", path};
      if (arguments[0] == "capture") arguments.push_back("--dry-run");
      const CliResult result = run_cli(arguments);
      EXPECT_EQ(result.status, 1) << command << " " << path;
      EXPECT_THAT(result.err, AllOf(HasSubstr(path), Not(HasSubstr("basic_filebuf"))));
    }
  EXPECT_THAT(run_cli({"tokenize", "--model", kDemoModel, "--prompt-file", bad}).err, HasSubstr("byte 5"));
}

TEST(Options, NestedIdsAreRefusedWithoutBeingFollowed) {
  const ScratchFolder folder;
  const std::string deep = folder.file("deep.json").string();
  std::ofstream(deep) << std::string(1'000'000, '[') << std::string(1'000'000, ']');
  const CliResult result = run_cli({"capture", "--model", kDemoModel, "--prompt-ids", deep, "--dry-run"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("token ids"));
}

TEST(Options, TooMuchGenerationSaysHowMuchFits) {
  const CliResult result = run_cli(
      {"capture", "--model", kDemoModel, "--prompt-ids", "-", "--generate", "99999", "--dry-run"}, "[1, 2]");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("--generate 8191"));
}

}  // namespace

}  // namespace keyscope::test

namespace keyscope::commands {

namespace {

using ::testing::ElementsAre;

TEST(PolicyList, PartsPoliciesButNotTheirOptions) {
  EXPECT_THAT(split_policies({"keydiff,sink"}), ElementsAre("keydiff", "sink"));
  EXPECT_THAT(split_policies({"keydiff:recent=0.1,metric=dot,sink", "h2o"}),
              ElementsAre("keydiff:recent=0.1,metric=dot", "sink", "h2o"));
  EXPECT_THAT(split_policies({"sink,keydiff:recent=0.1"}), ElementsAre("sink", "keydiff:recent=0.1"));
}

// What is no policy is left to the reader of policies to refuse.
TEST(PolicyList, KeepsWhatIsNone) {
  EXPECT_THAT(split_policies({"metric=dot"}), ElementsAre("metric=dot"));
  EXPECT_THAT(split_policies({"keydiff", "metric=dot"}), ElementsAre("keydiff", "metric=dot"));
  EXPECT_THAT(split_policies({"keydiff,,sink"}), ElementsAre("keydiff", "", "sink"));
}

}  // namespace

}  // namespace keyscope::commands
