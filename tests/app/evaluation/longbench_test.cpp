#include "app/evaluation/longbench.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/evaluation/demo_evaluation.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::evaluation {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kRows = KEYSCOPE_SOURCE_DIR "/assets/eval/longbench.jsonl";

LongBenchOptions options_of(const std::filesystem::path& data) {
  LongBenchOptions options;
  options.data = {data};
  return options;
}

class LongBench : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::vector<std::string>& lines) const {
    std::ofstream file(folder_.file("rows.jsonl"));
    for (const std::string& line : lines) file << line << "\n";
    return folder_.file("rows.jsonl");
  }

  static std::string row(const std::string& id, const std::string& context,
                         const std::string& dataset = "qasper") {
    return json{{"input", "Who?"}, {"context", context}, {"answers", {"He"}},
                {"length", 1},     {"dataset", dataset}, {"_id", id}}
        .dump();
  }

  static std::string refusal(const LongBenchOptions& options) {
    try {
      read_longbench(options, *demo_model());
    } catch (const FileError& error) {
      return error.what();
    }
    return "";
  }

  test::ScratchFolder folder_;
};

TEST_F(LongBench, RowsBecomePrompts) {
  const LongBenchSet set = read_longbench(options_of(kRows), *demo_model());
  ASSERT_EQ(set.examples.size(), 5U);
  EXPECT_EQ(set.examples[0].id, "hotpotqa/orchard");
  EXPECT_THAT(set.examples[0].answers, ElementsAre("Boris", "her brother Boris"));
  EXPECT_EQ(set.examples[0].continuation.max_new_tokens, 32);
  EXPECT_TRUE(set.examples[0].continuation.end_ids.empty());
  const std::string text = demo_model()->tokenizer()->decode(set.examples[0].prompt_ids, true);
  EXPECT_THAT(text, AllOf(HasSubstr("Answer the question based on the given passages."),
                          HasSubstr("Who keeps the bees?\nAnswer:")));
  // samsum ends with a line, and has one.
  const auto line = demo_model()->tokenizer()->encode("\n", false);
  EXPECT_THAT(set.examples[3].continuation.end_ids, ElementsAre(line.back()));
  EXPECT_TRUE(set.examples[3].continuation.never_empty);
  EXPECT_EQ(set.n_cut, 0);
}

TEST_F(LongBench, LongPromptsLoseTheirMiddle) {
  LongBenchOptions options = options_of(kRows);
  options.max_tokens = 60;
  const LongBenchSet set = read_longbench(options, *demo_model());
  EXPECT_EQ(set.n_cut, 5);
  for (const Example& example : set.examples) {
    EXPECT_TRUE(example.about["cut"].get<bool>());
    EXPECT_GT(example.about["n_whole"].get<std::int64_t>(), 60);
    EXPECT_NEAR(static_cast<double>(example.prompt_ids.size()), 60, 8);
  }
  options.cut = false;
  EXPECT_THAT(refusal(options),
              AllOf(HasSubstr("line 1"), HasSubstr("expected at most 60"), HasSubstr("5 rows are bad")));
}

TEST_F(LongBench, PromptsThatTheContextCannotHoldFitAfterTheCut) {
  std::string context;
  for (int i = 0; i < 4000; ++i) context += "The regiment marched on. ";
  const LongBenchSet set = read_longbench(options_of(write({row("long", context)})), *demo_model());
  EXPECT_EQ(set.n_cut, 1);
  const std::int64_t most = demo_model()->config().context_length - 128;
  EXPECT_LE(std::ssize(set.examples[0].prompt_ids), most);
  EXPECT_GT(std::ssize(set.examples[0].prompt_ids), most - 32);
}

TEST_F(LongBench, BadRowsAreNamedAndCanBeSkipped) {
  LongBenchOptions options =
      options_of(write({row("a", "A."), "{", row("a", "B."), R"({"input": 3})", row("b", "C.")}));
  EXPECT_THAT(refusal(options),
              AllOf(HasSubstr("rows.jsonl, line 2"), HasSubstr("3 rows are bad (lines 2, 3, 4)")));
  options.skip_bad = true;
  const LongBenchSet set = read_longbench(options, *demo_model());
  EXPECT_EQ(set.examples.size(), 2U);
  ASSERT_EQ(set.bad.size(), 3U);
  EXPECT_THAT(set.bad[1], AllOf(HasSubstr("line 3"), HasSubstr("same \"_id\"")));
}

TEST_F(LongBench, TheFirstRowsOfEachTaskAreTaken) {
  LongBenchOptions options = options_of(write({row("a", "A."), row("b", "B."), row("c", "C.")}));
  options.rows = 2;
  EXPECT_EQ(read_longbench(options, *demo_model()).examples.size(), 2U);
  EXPECT_EQ(read_longbench(options, *demo_model()).bad.size(), 0U);
  options.task = "no such";
  EXPECT_THROW(read_longbench(options, *demo_model()), UsageError);
}

TEST_F(LongBench, RowsBehindTheFirstAreNotJudged) {
  const std::string unfit = R"({"dataset": "qasper", "input": 3})", unnamed = R"({"input": 3})";
  LongBenchOptions options = options_of(write({row("a", "A."), unfit, row("b", "B.", "musique")}));
  EXPECT_THAT(refusal(options), HasSubstr("line 2"));
  options.rows = 1;
  EXPECT_EQ(read_longbench(options, *demo_model()).examples.size(), 2U);
  options = options_of(write({row("a", "A."), unnamed}));
  options.rows = 1;
  EXPECT_THAT(refusal(options), HasSubstr("\"dataset\" is not there"));
  options.task = "qasper";
  EXPECT_EQ(read_longbench(options, *demo_model()).examples.size(), 1U);
  options.data = {write({row("a", "A."), "{", row("b", "B.", "squad")})};
  EXPECT_THAT(refusal(options), HasSubstr("2 rows are bad (lines 2, 3)"));
}

TEST_F(LongBench, RowsOfBothBenchmarksAreNoTask) {
  LongBenchOptions options =
      options_of(write({row("a", "A."), row("b", "B.", "qasper_e"), row("c", "C.", "musique_e")}));
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("line 2"), HasSubstr("the row is of qasper_e"),
                                      HasSubstr("earlier ones are of qasper:")));
  options.skip_bad = true;
  EXPECT_EQ(read_longbench(options, *demo_model()).examples.size(), 2U);
  options.data = {write({row("a", "A.", "qasper_e"), row("b", "B.", "qasper_e")})};
  EXPECT_EQ(read_longbench(options, *demo_model()).examples.size(), 2U);
}

// The classes of a row are in no prompt, and decide its score.
TEST_F(LongBench, ResultsOfOtherClassesAreOthers) {
  const auto set_with = [&](const std::vector<std::string>& classes) {
    json trec = json::parse(row("a", "A.", "trec"));
    trec["all_classes"] = classes;
    return read_longbench(options_of(write({trec.dump()})), *demo_model());
  };
  const LongBenchSet two = set_with({"He", "She"}), three = set_with({"He", "She", "It"});
  EXPECT_EQ(two.examples[0].prompt_ids, three.examples[0].prompt_ids);
  EXPECT_NE(examples_sha256(two.examples), examples_sha256(three.examples));
  EXPECT_EQ(examples_sha256(two.examples), examples_sha256(set_with({"He", "She"}).examples));
  EXPECT_THAT(two.examples[0].about["all_classes"].get<std::vector<std::string>>(), ElementsAre("He", "She"));
}

TEST_F(LongBench, IsScoredByTheTextOfWhatWasGenerated) {
  const LongBenchSet set = read_longbench(options_of(kRows), *demo_model());
  const auto& tokenizer = *demo_model()->tokenizer();
  const Scorer scorer = longbench_scorer(set, tokenizer);
  capture::Completion completion;
  completion.generated = tokenizer.encode(" her brother Boris", false);
  EXPECT_EQ(scorer(set.examples[0], completion), (Scores{{"score", 1}}));
  completion.generated = tokenizer.encode("\nPlace\nPerson", false);
  EXPECT_EQ(scorer(set.examples[2], completion), (Scores{{"score", 1}}));
}

TEST_F(LongBench, OneLineTasksNeverBeginWithTheirEnd) {
  const LongBenchSet set = read_longbench(options_of(kRows), *demo_model());
  Settings settings;
  settings.blocks = {32};
  std::vector<Example> examples{set.examples[3]};
  // An end id that is the likeliest first token ends the text at once, unless it may not be empty.
  examples[0].continuation.never_empty = false;
  examples[0].continuation.end_ids.clear();
  examples[0].continuation.max_new_tokens = 1;
  const auto free = evaluate_demo(settings, examples, longbench_scorer(set, *demo_model()->tokenizer()));
  examples[0].continuation.end_ids = demo_model()->tokenizer()->encode(free.results[0].text, false);
  EXPECT_EQ(
      evaluate_demo(settings, examples, longbench_scorer(set, *demo_model()->tokenizer())).results[0].text,
      "");
  examples[0].continuation.never_empty = true;
  const auto other = evaluate_demo(settings, examples, longbench_scorer(set, *demo_model()->tokenizer()));
  EXPECT_NE(other.results[0].text, "");
  EXPECT_NE(other.results[0].text, free.results[0].text);
}

TEST_F(LongBench, OfTheBenchmarkItselfIsRead) {
  const char* data = std::getenv("KEYSCOPE_TEST_DATA");
  const std::filesystem::path file =
      std::filesystem::path(data == nullptr ? "" : data) / "longbench/multi_news.first5.jsonl";
  if (data == nullptr || !std::filesystem::exists(file))
    GTEST_SKIP() << "KEYSCOPE_TEST_DATA has no LongBench";
  const LongBenchSet set = read_longbench(options_of(file), *demo_model());
  ASSERT_EQ(set.examples.size(), 5U);
  EXPECT_EQ(set.rows[0].length, 2099);
  for (const Example& example : set.examples) {
    EXPECT_LE(std::ssize(example.prompt_ids), demo_model()->config().context_length - 512);
    EXPECT_THAT(demo_model()->tokenizer()->decode(example.prompt_ids, true),
                ::testing::EndsWith("summary of all the news.\n\nSummary:"));
  }
}

}  // namespace
}  // namespace keyscope::evaluation
