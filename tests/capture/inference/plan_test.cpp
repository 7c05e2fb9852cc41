// What a capture says about itself, and what it refuses, before it begins.

#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "capture/inference/budget_split.hpp"
#include "tests/support/captured.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::capture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Plan : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = Model::load(folder_.save(), {.device = "cpu"});
    options_.prompt_ids = test::random_ids(20, 50);
    options_.policies = test::policies({"none"});
    options_.budget = 8;
    options_.block_size = 6;
  }

  recording::RecordPlan plan() const { return plan_capture(*model_, options_); }

  // The complaint, with the kind of exception before it.
  std::string complaint() const {
    try {
      plan();
      return "";
    } catch (const UsageError& error) {
      return std::string("usage: ") + error.what();
    } catch (const InvalidInput& error) {
      return std::string("input: ") + error.what();
    }
  }

  test::RandomModel folder_;
  std::shared_ptr<const Model> model_;
  CaptureOptions options_;
};

TEST_F(Plan, NamesRunsAfterTheirPoliciesAndCountsRepeats) {
  options_.policies = test::policies({"none", "keydiff", "sink:first=2", "keydiff:recent=0.25"});
  const auto plan = this->plan();
  ASSERT_EQ(plan.runs.size(), 4U);
  EXPECT_EQ(plan.runs[0].name, "none");
  EXPECT_EQ(plan.runs[0].budget, 0);
  EXPECT_EQ(plan.runs[1].name, "keydiff");
  EXPECT_EQ(plan.runs[3].name, "keydiff-2");
  EXPECT_EQ(plan.runs[3].policy, "keydiff");
  EXPECT_EQ(plan.runs[3].budget, 8);
  EXPECT_EQ(plan.runs[3].n_prompt_blocks, 4);
  EXPECT_EQ(plan.runs[3].block_size, 6);
}

TEST_F(Plan, ParametersAreJsonWithEveryDefault) {
  options_.policies = test::policies({"keydiff:recent=0.25", "sink"});
  const auto keydiff = parse_json(plan().runs[0].parameters);
  EXPECT_EQ(keydiff["anchor"], "mean");
  EXPECT_EQ(keydiff["metric"], "cosine");
  EXPECT_EQ(keydiff["recent"], 0.25);
  EXPECT_EQ(parse_json(plan().runs[1].parameters)["first"], 4);
}

// The file says [[1, 0], [0, 1]]: of each layer one head streams, and the other keeps everything.
TEST_F(Plan, HeadsThatKeepEverythingHaveRoomForIt) {
  const std::string file = test::inference_golden("tiny_llama.streams.json").string();
  options_.generate = 3;
  options_.policies = test::policies({"duo:file=" + file, "keydiff"});
  const auto planned = plan();
  EXPECT_THAT(planned.runs[0].budgets, ElementsAre(8, 22, 22, 8));
  EXPECT_EQ(planned.runs[0].budget, 8);
  EXPECT_EQ(parse_json(planned.runs[0].parameters)["file"], file);
  // 8 + 6 rows of a head that streams, 22 of one that does not.
  options_.policies = test::policies({"duo:file=" + file});
  const auto some = estimate_capture(*model_, plan()).cache_bytes;
  options_.policies = test::policies({"keydiff"});
  EXPECT_EQ(some * 28, estimate_capture(*model_, plan()).cache_bytes * 36);
  options_.policies = test::policies({"duo:file=" + file});
  EXPECT_EQ(some, test::run_in_memory(*model_, options_).outcomes[0].peak_cache_bytes);
}

// What one layer comes to hold beyond N, others do not; half as much again moves between them, and two
// blocks.
TEST_F(Plan, LayersThatAreDealtOneBudgetHaveRoomForIt) {
  options_.generate = 3;
  options_.schedule = Schedule::kBlock;
  options_.policies = test::policies({"keydiff"});
  const auto uniform = estimate_capture(*model_, plan()).cache_bytes;
  options_.policies = test::policies({"keydiff:split=cake"});
  const auto dealt = estimate_capture(*model_, plan()).cache_bytes;
  EXPECT_EQ(dealt * (8 + 6), uniform * 22);  // N is 8, B is 6; not 8 + 4 + 2 · 6, as there are 22 tokens
  EXPECT_LE(test::run_in_memory(*model_, options_).outcomes[0].peak_cache_bytes, dealt);
}

TEST_F(Plan, HeadsThatKeepEverythingShareNothing) {
  const std::string duo = "duo:file=" + test::inference_golden("tiny_llama.streams.json").string();
  for (const char* slot :
       {"granularity=layer", "granularity=page:4", "granularity=model", "split=adakv", "split=cake"}) {
    options_.policies = test::policies({duo + "," + slot});
    EXPECT_THAT(complaint(), AllOf(HasSubstr("usage: "), HasSubstr(slot), HasSubstr("share neither")));
  }
  options_.policies = test::policies({duo});
  options_.cache_positions = true;
  EXPECT_THAT(complaint(), HasSubstr("expected --positions true"));
  options_.cache_positions = false;
  options_.budgets = {4, 4, 4, 4};
  EXPECT_THAT(complaint(), HasSubstr("expected --budget"));
}

TEST_F(Plan, TellsWhereItComesFrom) {
  options_.command = "keyscope capture …";
  options_.prompt_ids = {1, 25, 0};
  const auto plan = this->plan();
  EXPECT_EQ(plan.provenance.command, "keyscope capture …");
  // python: hashlib.sha256(struct.pack("<3i", 1, 25, 0)).hexdigest()
  EXPECT_EQ(plan.provenance.prompt_sha256,
            "a779ab9e5a68231d25c16e85b82a89988761e00e665090af11c89f34f916fb8d");
  EXPECT_EQ(plan.provenance.model_sha256, model_->model_sha256());
  EXPECT_EQ(plan.provenance.device, "cpu");
  EXPECT_THAT(plan.provenance.versions,
              AllOf(HasSubstr("keyscope 0."), HasSubstr("LibTorch 2."), HasSubstr("HDF5 ")));
  EXPECT_THAT(plan.provenance.started, ::testing::MatchesRegex("....-..-..T..:..:..Z"));
  const auto configuration = parse_json(plan.provenance.configuration);
  EXPECT_EQ(configuration["block"], 6);
  EXPECT_EQ(configuration["dtype"], "float32");
  EXPECT_EQ(plan.model.config, model_->config().raw_json);
  EXPECT_EQ(plan.model.name, folder_.folder().filename());
  EXPECT_EQ(plan.n_prompt(), 3);
}

TEST_F(Plan, RecordsTheLayersThatAreAsked) {
  EXPECT_THAT(plan().layers, ElementsAre(0, 1));
  options_.layers = {1, 1};
  EXPECT_THAT(plan().layers, ElementsAre(1));
  options_.layers = {0, 2};
  EXPECT_THAT(complaint(), AllOf(HasSubstr("usage: "), HasSubstr("0 to 1")));
}

TEST_F(Plan, RecordsTheHeadsThatAreAsked) {
  EXPECT_TRUE(plan().heads.all());
  EXPECT_FALSE(parse_json(plan().provenance.configuration).contains("heads"));
  options_.heads = {1, 1};
  EXPECT_THAT(plan().heads.kv_heads, ElementsAre(1));
  EXPECT_EQ(plan().n_row_kv_heads(0), 1);
  EXPECT_EQ(plan().n_row_heads(0), plan().model.group_size(0));
  EXPECT_THAT(parse_json(plan().provenance.configuration)["heads"], ElementsAre(1, 1));
  options_.heads = {1, 0};
  EXPECT_TRUE(plan().heads.all()) << "a choice of all limits nothing";
  options_.heads = {0, 2};
  EXPECT_EQ(complaint(), "usage: --heads: 2 is not there; the model has KV heads 0 to 1");
}

// Half the heads take half the rows; statistics are of all of them.
TEST_F(Plan, EstimatesOnlyTheRowsThatAreRecorded) {
  options_.record_values = options_.record_attention = true;
  const std::int64_t all = estimate_capture(*model_, plan()).disk_bytes;
  options_.record_keys = options_.record_queries = options_.record_values = options_.record_attention = false;
  const std::int64_t statistics = estimate_capture(*model_, plan()).disk_bytes;
  options_.record_keys = options_.record_queries = options_.record_values = options_.record_attention = true;
  options_.heads = {1};
  EXPECT_EQ(estimate_capture(*model_, plan()).disk_bytes, statistics + (all - statistics) / 2);
}

TEST_F(Plan, ScoresNoMorePositionsThanThereAre) {
  options_.record_logits = true;
  EXPECT_EQ(plan().score_last, 20);
  options_.score_last = 5;
  EXPECT_EQ(plan().score_last, 5);
}

TEST_F(Plan, RefusesPromptsThatCannotBe) {
  options_.prompt_ids.clear();
  EXPECT_THAT(complaint(), AllOf(HasSubstr("input: "), HasSubstr("empty")));
  options_.prompt_ids = {3, 50};
  EXPECT_THAT(complaint(), AllOf(HasSubstr("input: "), HasSubstr("token 1 is id 50"), HasSubstr("0 to 49")));
  options_.prompt_ids = {-1};
  EXPECT_THAT(complaint(), HasSubstr("-1"));
}

TEST_F(Plan, RefusesMoreTokensThanTheContextHolds) {
  options_.prompt_ids = test::random_ids(512, 50);
  EXPECT_EQ(complaint(), "");
  options_.generate = 1;  // never fed back
  EXPECT_EQ(complaint(), "");
  options_.generate = 2;
  EXPECT_THAT(complaint(), AllOf(HasSubstr("input: "), HasSubstr("512"), HasSubstr("1 ")));
  options_.generate = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(complaint(), HasSubstr("512"));
  options_.generate = 0;
  options_.prompt_ids.push_back(4);
  EXPECT_THAT(complaint(), AllOf(HasSubstr("513"), HasSubstr("512")));
}

TEST_F(Plan, RefusesOptionsThatCannotBe) {
  options_.policies = test::policies({"keydiff"});
  options_.budget = 0;
  EXPECT_THAT(complaint(), AllOf(HasSubstr("usage: "), HasSubstr("--budget")));
  options_.budget = 4;
  options_.block_size = 0;
  EXPECT_THAT(complaint(), AllOf(HasSubstr("usage: "), HasSubstr("--block")));
  options_.block_size = 4;
  options_.generate = -1;
  EXPECT_THAT(complaint(), AllOf(HasSubstr("usage: "), HasSubstr("--generate")));
  options_.generate = 0;
  options_.score_last = 0;
  EXPECT_THAT(complaint(), AllOf(HasSubstr("usage: "), HasSubstr("--score-last")));
  options_.score_last = 4;
  options_.policies = {{"nonsense", {}}};
  EXPECT_THAT(complaint(), AllOf(HasSubstr("usage: "), HasSubstr("nonsense")));
  options_.policies.clear();
  EXPECT_THAT(complaint(), HasSubstr("usage: "));
}

// Two layers of two KV heads.
TEST_F(Plan, TakesANumberForEveryHead) {
  const auto numbers = [&](const std::string& json, HeadNumbers kind) {
    return head_numbers(json, "file", model_->config(), kind);
  };
  EXPECT_THAT(numbers("[3, [1, 2147483648]]", HeadNumbers::kRows), ElementsAre(3, 3, 1, 2147483648.0));
  EXPECT_THAT(numbers("[0.5, [1, 2.5e10]]", HeadNumbers::kWeights), ElementsAre(0.5, 0.5, 1, 2.5e10));
  const auto refusal = [&](const std::string& json, HeadNumbers kind) -> std::string {
    try {
      numbers(json, kind);
      return "";
    } catch (const FileError& error) {
      return error.what();
    }
  };
  for (const char* entry : {"0", "-1", "2147483649", "1.5", "1.0", "\"1\"", "null", "true"}) {
    const std::string alone = std::string("[1, ") + entry + "]";
    EXPECT_THAT(refusal(alone, HeadNumbers::kRows),
                AllOf(HasSubstr("file: entry 1 is"), HasSubstr("from 1")));
    EXPECT_THAT(refusal(std::string("[[1, ") + entry + "], 1]", HeadNumbers::kRows), HasSubstr("entry 0 is"));
  }
  for (const char* entry : {"0", "-0.5", "\"1\"", "null", "false"})
    EXPECT_THAT(refusal(std::string("[1, ") + entry + "]", HeadNumbers::kWeights), HasSubstr("above 0"));
  EXPECT_THAT(refusal("[1, {}]", HeadNumbers::kRows), HasSubstr("entry 1 is {}"));
  EXPECT_THAT(refusal("[1]", HeadNumbers::kRows), HasSubstr("a list of 1, expected 2 entries"));
  EXPECT_THAT(refusal("[1, [1]]", HeadNumbers::kRows), HasSubstr("entry 1 is a list of 1, expected 2"));
  EXPECT_THAT(refusal("[1, [[1], 1]]", HeadNumbers::kWeights), HasSubstr("a JSON array of weights"));
}

TEST_F(Plan, TakesTheLargestNumbersThereAre) {
  options_.policies = test::policies({"keydiff"});
  options_.budget = options_.block_size = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(plan().runs[0].n_prompt_blocks, 1);
  EXPECT_GT(estimate_capture(*model_, plan()).cache_bytes, 0);
  EXPECT_EQ(test::run_in_memory(*model_, options_).outcomes[0].peak_cache_rows, 20);
}

TEST_F(Plan, EstimatesTheCacheThatARunThenTakes) {
  options_.prompt_ids = test::random_ids(400, 50);
  for (const auto* policy : {"none", "keydiff"}) {
    options_.policies = test::policies({policy});
    const auto estimate = estimate_capture(*model_, plan());
    EXPECT_EQ(estimate.cache_bytes, test::run_in_memory(*model_, options_).outcomes[0].peak_cache_bytes)
        << policy;
    EXPECT_EQ(estimate.weight_bytes, model_->weight_bytes());
    EXPECT_GT(estimate.disk_bytes, 0);
    EXPECT_GT(estimate.seconds, 0);
  }
}

}  // namespace
}  // namespace keyscope::capture
