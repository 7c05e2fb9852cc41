#include "app/evaluation/ruler.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/app/evaluation/made_results.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::evaluation {

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

const RulerTask& task_named(std::string_view name) { return *find_ruler_task(name); }

// SQuAD's and HotpotQA's layouts, with texts of our own.
const char* const kSquad = R"({"version": "v2.0", "data": [
  {"title": "Rivers", "paragraphs": [
    {"context": "The Vistula flows through Cracow and Warsaw.", "qas": [
      {"question": "Which river flows through Cracow?", "id": "1", "is_impossible": false,
       "answers": [{"text": "Vistula", "answer_start": 4}, {"text": "Vistula", "answer_start": 4},
                   {"text": "The Vistula", "answer_start": 0}]},
      {"question": "Who owns it?", "id": "2", "is_impossible": true, "answers": []}]},
    {"context": "The Neva is short and wide.", "qas": []}]},
  {"title": "Towns", "paragraphs": [
    {"context": "Smolensk has a kremlin with many towers.", "qas": [
      {"question": "Which town has a kremlin?", "id": "3", "answers": [{"text": "Smolensk"}]}]}]}]})";
const char* const kHotpotqa = R"([{"_id": "a", "question": "In which land does the author of the novel live?",
  "answer": "Norway", "type": "bridge", "level": "hard", "supporting_facts": [],
  "context": [["Novel", ["It was written by Hansen.", " It is long."]], ["Hansen", ["He lives in Norway."]]]}])";

class Ruler : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.file(name)) << text;
    return folder_.file(name);
  }

  RulerOptions all_tasks() const {
    RulerOptions options;
    options.lengths = {4096};
    options.samples = 1;
    options.squad = write("squad.json", kSquad);
    options.hotpotqa = write("hotpotqa.json", kHotpotqa);
    return options;
  }

  static RulerOptions of(std::vector<std::string> tasks, std::vector<std::int64_t> lengths) {
    RulerOptions options;
    options.tasks = std::move(tasks);
    options.lengths = std::move(lengths);
    options.samples = 2;
    return options;
  }

  static std::string text_of(const Example& example) {
    return demo_model()->tokenizer()->decode(example.prompt_ids, true);
  }

  test::ScratchFolder folder_;
};

TEST(RulerTasks, AreTheThirteenAsPublished) {
  std::map<std::string, std::int64_t> tokens;
  for (const RulerTask& task : ruler_tasks()) {
    tokens[std::string(task.name)] = task.max_new_tokens;
    EXPECT_EQ(find_ruler_task(task.name), &task);
    EXPECT_EQ(task.any_output, task.name.starts_with("qa_"));
  }
  EXPECT_EQ(tokens, (std::map<std::string, std::int64_t>{{"niah_single_1", 128},
                                                         {"niah_single_2", 128},
                                                         {"niah_single_3", 128},
                                                         {"niah_multikey_1", 128},
                                                         {"niah_multikey_2", 128},
                                                         {"niah_multikey_3", 128},
                                                         {"niah_multivalue", 128},
                                                         {"niah_multiquery", 128},
                                                         {"vt", 30},
                                                         {"cwe", 120},
                                                         {"fwe", 50},
                                                         {"qa_1", 32},
                                                         {"qa_2", 32}}));
  EXPECT_EQ(find_ruler_task("niah_single"), nullptr);
}

TEST(RulerScore, IsTheShareOfTheOutputs) {
  const std::vector<std::string> outputs{"Alpha", "beta", "GAMMA", "delta"};
  const RulerTask& task = task_named("niah_multivalue");
  EXPECT_EQ(ruler_score(task, " alpha, BETA and gamma; also delta.", outputs), 1);
  EXPECT_EQ(ruler_score(task, "It is alphabet", outputs), 0.25) << "in the middle of a word as well";
  EXPECT_EQ(ruler_score(task, "beta gamma", outputs), 0.5);
  EXPECT_EQ(ruler_score(task, "", outputs), 0);
}

TEST(RulerScore, OfQuestionsOneOutputIsEnough) {
  const std::vector<std::string> outputs{"Vistula", "The Vistula"};
  EXPECT_EQ(ruler_score(task_named("qa_1"), "the VISTULA river", outputs), 1);
  EXPECT_EQ(ruler_score(task_named("qa_2"), "Neva", outputs), 0);
  EXPECT_EQ(ruler_score(task_named("qa_1"), "", outputs), 0);
}

TEST(RulerScore, LowersAsPythonDoesAndTakesControlCharactersForLineBreaks) {
  EXPECT_EQ(ruler_score(task_named("qa_1"), " Vistula \n", std::vector<std::string>{"vistula "}), 0)
      << "white space at the ends is not part of the answer";
  EXPECT_EQ(ruler_score(task_named("fwe"), "STRASSE ÄPFEL", std::vector<std::string>{"äpfel"}), 1);
  EXPECT_EQ(ruler_score(task_named("fwe"), "two\twords", std::vector<std::string>{"two\twords"}), 0);
  EXPECT_EQ(ruler_score(task_named("fwe"), "two\twords", std::vector<std::string>{"two\nwords"}), 1);
}

TEST(RulerLength, IsANumberOfTokens) {
  EXPECT_EQ(parse_ruler_length("4096"), 4096);
  EXPECT_EQ(parse_ruler_length("4K"), 4096);
  EXPECT_EQ(parse_ruler_length("128k"), 131'072);
  for (const char* text : {"", "K", "0", "-4K", "4 K", "4KB", "4.5K", "99999999999"})
    EXPECT_EQ(parse_ruler_length(text), std::nullopt) << text;
}

// What every generator promises.
TEST_F(Ruler, EveryTaskFillsItsLengthHoldsItsOutputsAndScoresThem) {
  const RulerSet set = ruler_examples(all_tasks(), *demo_model());
  ASSERT_EQ(set.examples.size(), 13U);
  std::size_t at = 0;
  for (const RulerTask& task : ruler_tasks()) {
    SCOPED_TRACE(task.name);
    const Example& example = set.examples[at++];
    EXPECT_EQ(example.about, (nlohmann::ordered_json{{"task", task.name}, {"length", 4096}, {"sample", 0}}));
    EXPECT_EQ(example.continuation.max_new_tokens, task.max_new_tokens);
    const std::int64_t total = std::ssize(example.prompt_ids) + task.max_new_tokens;
    EXPECT_LE(total, 4096);
    EXPECT_GT(total, task.any_output ? 0 : 4096 - 120) << "one unit more would not fit";
    const std::string text = text_of(example);
    std::string perfect;
    for (const std::string& output : example.answers) {
      EXPECT_THAT(text, HasSubstr(output));
      EXPECT_TRUE(task.any_output || ruler_score(task, perfect, example.answers) < 1);
      perfect += output + ", ";
    }
    EXPECT_EQ(ruler_score(task, perfect, example.answers), 1);
    EXPECT_EQ(ruler_score(task, "", example.answers), 0);
  }
}

TEST_F(Ruler, ScoresAreOfTheGeneratedText) {
  const auto tokenizer = demo_model()->tokenizer();
  const Example example = ruler_examples(of({"niah_multiquery"}, {1024}), *demo_model()).examples.front();
  const Scorer scorer = ruler_scorer(*tokenizer);
  capture::Completion completion;
  completion.generated = tokenizer->encode(" " + example.answers[0] + " and " + example.answers[3], false);
  EXPECT_EQ(scorer(example, completion), (Scores{{"score", 0.5}}));
}

TEST_F(Ruler, SameSeedSameBytesWhateverElseIsAsked) {
  RulerOptions options = of({"niah_multikey_1", "vt", "fwe"}, {1024, 2048});
  const auto all = ruler_examples(options, *demo_model()).examples;
  ASSERT_EQ(all.size(), 12U);
  EXPECT_EQ(examples_sha256(ruler_examples(options, *demo_model()).examples), examples_sha256(all));
  std::set<std::vector<std::int32_t>> different;
  for (const Example& example : all) different.insert(example.prompt_ids);
  EXPECT_EQ(different.size(), all.size());
  const auto alone = ruler_examples(of({"niah_multikey_1"}, {1024}), *demo_model()).examples;
  const auto of_all = std::ranges::find(all, alone[1].id, &Example::id);
  ASSERT_NE(of_all, all.end());
  EXPECT_EQ(of_all->prompt_ids, alone[1].prompt_ids);
  options.seed = 1;
  const auto others = ruler_examples(options, *demo_model()).examples;
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_NE(others[i].prompt_ids, all[i].prompt_ids) << all[i].id;
}

TEST_F(Ruler, LengthsAreThoseThatTheContextAllows) {
  RulerOptions options;
  options.tasks = {"niah_single_1"};
  options.samples = 1;
  std::vector<std::int64_t> lengths;
  for (const Example& example : ruler_examples(options, *demo_model()).examples)
    lengths.push_back(example.about["length"]);
  EXPECT_THAT(lengths, ElementsAre(4096, 8192)) << "the demo model's context is 8,192";
  options.lengths = {16'384};
  EXPECT_THAT([&] { ruler_examples(options, *demo_model()); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("--length 16384"), HasSubstr("8192"))));
}

TEST_F(Ruler, WhatDoesNotFitIsLeftOutOrRefusedByName) {
  RulerOptions options = of({}, {512});
  const RulerSet set = ruler_examples(options, *demo_model());
  std::set<std::string> tasks;
  for (const Example& example : set.examples) tasks.insert(example.about["task"]);
  EXPECT_FALSE(tasks.contains("cwe"));
  EXPECT_TRUE(tasks.contains("fwe"));
  EXPECT_THAT(set.notes, ::testing::Contains(AllOf(HasSubstr("at 512 tokens"), HasSubstr("cwe"))));
  EXPECT_THAT(set.notes, ::testing::Contains(AllOf(HasSubstr("qa_1"), HasSubstr("--squad"))));
  EXPECT_THAT(set.notes, ::testing::Contains(AllOf(HasSubstr("qa_2"), HasSubstr("--hotpotqa"))));
  options.tasks = {"cwe"};
  EXPECT_THAT([&] { ruler_examples(options, *demo_model()); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("--length 512"), HasSubstr("cwe"))));
  options.tasks = {};
  options.lengths = {40};
  EXPECT_THAT([&] { ruler_examples(options, *demo_model()); },
              ThrowsMessage<UsageError>(HasSubstr("none of the tasks fits")));
}

TEST_F(Ruler, OptionsThatCannotBeAreRefused) {
  const auto refusal = [](const RulerOptions& options) -> std::string {
    try {
      options.check();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(of({"niah"}, {})), AllOf(HasSubstr("\"niah\""), HasSubstr("niah_multikey_3")));
  EXPECT_THAT(refusal(of({"qa_1"}, {})), AllOf(HasSubstr("qa_1"), HasSubstr("--squad FILE")));
  EXPECT_THAT(refusal(of({"qa_2"}, {})), AllOf(HasSubstr("qa_2"), HasSubstr("--hotpotqa FILE")));
  EXPECT_THAT(refusal(of({"vt", "vt"}, {})), HasSubstr("given twice"));
  EXPECT_THAT(refusal(of({"vt"}, {512, 512})), HasSubstr("given twice"));
  RulerOptions rows = of({"qa_1"}, {});
  rows.data = {"rows.jsonl"};
  EXPECT_EQ(refusal(rows), "");
  rows.needles.paraphrased = true;
  EXPECT_THAT(refusal(rows), HasSubstr("--needles"));
  rows.needles = {};
  rows.squad = "squad.json";
  EXPECT_THAT(refusal(rows), HasSubstr("--squad"));
}

TEST_F(Ruler, MoreSamplesThanQuestionsAreRefused) {
  RulerOptions options = all_tasks();
  options.tasks = {"qa_1"};
  options.samples = 3;
  EXPECT_THAT([&] { ruler_examples(options, *demo_model()); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("--samples 3"), HasSubstr("2 questions"))));
  options.samples = 2;
  const auto examples = ruler_examples(options, *demo_model()).examples;
  ASSERT_EQ(examples.size(), 2U);
  EXPECT_NE(examples[0].answers, examples[1].answers);
}

TEST_F(Ruler, EssaysAreOfTheTextThatIsGiven) {
  RulerOptions options = of({"niah_single_2"}, {512});
  options.haystack_path =
      write("essay.txt", "The old house\nstood by the sea.  Nobody went there.\n\nIn winter it was cold.\n");
  const std::string text = text_of(ruler_examples(options, *demo_model()).examples.front());
  EXPECT_THAT(text, HasSubstr("The old house stood by the sea. "));
  EXPECT_THAT(text, HasSubstr("Nobody went there."));
}

TEST(RulerSettings, SayHowPromptsAreMade) {
  RulerOptions options;
  options.tasks = {"vt"};
  options.needles.heterogeneous = true;
  const auto made = ruler_settings(options);
  EXPECT_EQ(made["samples"], 10);
  EXPECT_EQ(made["prompts"], "generated");
  EXPECT_EQ(made["heterogeneous"], true);
  EXPECT_EQ(made["paraphrased"], false);
  options.needles = {};
  options.data = {"rows"};
  const auto read = ruler_settings(options);
  EXPECT_EQ(read["prompts"], "rows");
  EXPECT_TRUE(read["samples"].is_null());
  EXPECT_FALSE(read.contains("haystack"));
}

}  // namespace

}  // namespace keyscope::evaluation
