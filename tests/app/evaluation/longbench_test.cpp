#include "app/evaluation/longbench.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/json.hpp"
#include "tests/app/evaluation/made_results.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::evaluation {

namespace {

std::unique_ptr<tokenizer::Tokenizer> demo_tokenizer() {
  return tokenizer::Tokenizer::load(KEYSCOPE_SOURCE_DIR "/assets/demo_model");
}

TEST(LongBenchPrompt, IsCutAsTransformersCutsIt) {
  const auto tokenizer = demo_tokenizer();
  const auto text = read_goldens("longbench_goldens.json", "text").get<std::string>();
  int n_cut = 0;
  for (const auto& golden : read_goldens("longbench_goldens.json", "cuts")) {
    const auto max_tokens = golden["max_tokens"].get<std::int64_t>();
    SCOPED_TRACE(max_tokens);
    std::string seen;
    const auto encode = [&](const std::string& left) {
      seen = left;
      return tokenizer->encode(left, true);
    };
    const LongBenchPrompt prompt = longbench_prompt(*tokenizer, text, {max_tokens, 100'000}, encode);
    EXPECT_EQ(seen, golden["text"].get<std::string>());
    EXPECT_EQ(prompt.ids, golden["ids"].get<std::vector<std::int32_t>>());
    EXPECT_EQ(prompt.n_whole, golden["n_whole"].get<std::int64_t>());
    EXPECT_EQ(prompt.cut, prompt.n_whole > max_tokens);
    n_cut += prompt.cut ? 1 : 0;
  }
  EXPECT_GT(n_cut, 5);
}

TEST(LongBenchPrompt, FitsWhateverItsChatTemplateAdds) {
  const auto tokenizer = demo_tokenizer();
  std::string text;
  for (int i = 0; i < 200; ++i) text += "Prince Andrew rode on. ";
  const auto encode = [&](const std::string& left) {
    return tokenizer->encode("In front of the turn. " + left + " Behind the turn.", true);
  };
  const LongBenchPrompt prompt = longbench_prompt(*tokenizer, text, {300, 300}, encode);
  EXPECT_LE(prompt.ids.size(), 300U);
  EXPECT_GT(prompt.ids.size(), 280U);
  EXPECT_TRUE(prompt.cut);
}

TEST(LongBenchPrompt, RefusesWhatNothingOfFits) {
  const auto tokenizer = demo_tokenizer();
  const auto encode = [](const std::string&) { return std::vector<std::int32_t>(50, 1); };
  EXPECT_THROW(longbench_prompt(*tokenizer, "Prince Andrew rode on.", {40, 40}, encode), InvalidInput);
}

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json row_of(const char* dataset) {
  return {{"input", "Who?"},    {"context", "He."}, {"answers", {"He", "him"}}, {"length", 2099},
          {"dataset", dataset}, {"language", "en"}, {"all_classes", nullptr},   {"_id", "e45a"}};
}

std::string row_refusal(const json& row, std::string_view default_task = "") {
  try {
    read_longbench_row(row, default_task, "f.jsonl, line 3");
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

TEST(LongBenchRows, AreRead) {
  const LongBenchRow row = read_longbench_row(row_of("qasper"), "", "");
  EXPECT_EQ(row.task, find_longbench_task("qasper"));
  EXPECT_EQ(row.dataset, "qasper");
  EXPECT_EQ(row.id, "e45a");
  EXPECT_EQ(row.input, "Who?");
  EXPECT_EQ(row.context, "He.");
  EXPECT_THAT(row.answers, ElementsAre("He", "him"));
  EXPECT_TRUE(row.all_classes.empty());
  EXPECT_EQ(row.length, 2099);
}

TEST(LongBenchRows, ANamedTaskIsForRowsWithoutOne) {
  json row = row_of("qasper");
  EXPECT_EQ(read_longbench_row(row, "musique", "").task->name, "qasper");
  row.erase("dataset");
  EXPECT_EQ(read_longbench_row(row, "musique", "").task->name, "musique");
  EXPECT_EQ(read_longbench_row(row, "musique_e", "").task->name, "musique");
  EXPECT_EQ(read_longbench_row(row, "musique_e", "").dataset, "musique_e");
  EXPECT_THAT(row_refusal(row), AllOf(HasSubstr("f.jsonl, line 3"), HasSubstr("\"dataset\" is not there")));
}

TEST(LongBenchRows, FieldsAreChecked) {
  for (const char* field : {"input", "context", "answers"}) {
    json row = row_of("qasper");
    row[field] = 7;
    EXPECT_THAT(row_refusal(row), AllOf(HasSubstr("f.jsonl, line 3"), HasSubstr(field), HasSubstr("is 7")));
    row.erase(field);
    EXPECT_THAT(row_refusal(row), AllOf(HasSubstr(field), HasSubstr("is not there")));
  }
  json row = row_of("qasper");
  row["answers"] = json::array();
  EXPECT_THAT(row_refusal(row), HasSubstr("\"answers\" is empty"));
  row["answers"] = {"one", 2};
  EXPECT_THAT(row_refusal(row), HasSubstr("array of texts"));
  row = row_of("qasper");
  row["length"] = "long";
  EXPECT_THAT(row_refusal(row), HasSubstr("number of words"));
  EXPECT_THAT(row_refusal(row_of("dureader")), HasSubstr("Chinese"));
  EXPECT_THAT(row_refusal(row_of("squad")), HasSubstr("narrativeqa"));
}

TEST(LongBenchRows, AnswersThatCannotBeScoredAreRefused) {
  EXPECT_THAT(row_refusal(row_of("trec")), HasSubstr("all_classes"));
  json classes = row_of("trec");
  classes["all_classes"] = {"City", "Date"};
  EXPECT_THAT(read_longbench_row(classes, "", "").all_classes, ElementsAre("City", "Date"));
  EXPECT_THAT(row_refusal(row_of("passage_retrieval_en")), HasSubstr("names no paragraph"));
  json paragraph = row_of("passage_retrieval_en");
  paragraph["answers"] = {"Paragraph 12"};
  EXPECT_EQ(row_refusal(paragraph), "");
}

TEST(LongBenchTasks, AskAsTheBenchmarkDoes) {
  const nlohmann::json goldens = read_goldens("longbench_goldens.json", "tasks");
  ASSERT_EQ(longbench_tasks().size(), goldens.size());
  for (const LongBenchTask& task : longbench_tasks()) {
    SCOPED_TRACE(task.name);
    const auto& golden = goldens.at(std::string(task.name));
    // Braces in a row's own text are text.
    EXPECT_EQ(longbench_text(task, "{input} <c>", "{context} <i>"), golden["prompt"].get<std::string>());
    EXPECT_EQ(task.max_new_tokens, golden["max_new_tokens"].get<std::int64_t>());
  }
}

TEST(LongBenchTasks, FewShotAndCodeAreNoChat) {
  std::vector<std::string_view> plain, first_line, one_line;
  for (const LongBenchTask& task : longbench_tasks()) {
    if (!task.chat) plain.push_back(task.name);
    if (task.first_line_only) first_line.push_back(task.name);
    if (task.one_line) one_line.push_back(task.name);
  }
  EXPECT_THAT(plain, ::testing::ElementsAre("trec", "triviaqa", "samsum", "lcc", "repobench-p"));
  EXPECT_THAT(first_line, ::testing::ElementsAre("trec", "triviaqa", "samsum"));
  EXPECT_THAT(one_line, ::testing::ElementsAre("samsum"));
}

TEST(LongBenchTasks, AreFoundByTheirNamesInBothBenchmarks) {
  ASSERT_NE(find_longbench_task("qasper"), nullptr);
  EXPECT_EQ(find_longbench_task("qasper"), find_longbench_task("qasper_e"));
  EXPECT_EQ(find_longbench_task("Qasper"), nullptr);
  EXPECT_EQ(find_longbench_task(""), nullptr);
}

TEST(LongBenchTasks, SayWhyThereIsNone) {
  EXPECT_THAT(no_longbench_task("qspr"),
              AllOf(HasSubstr("qspr"), HasSubstr("not known"), HasSubstr("musique")));
  for (const char* chinese : {"multifieldqa_zh", "dureader", "vcsum", "lsht", "passage_retrieval_zh"}) {
    EXPECT_EQ(find_longbench_task(chinese), nullptr);
    EXPECT_THAT(no_longbench_task(chinese), AllOf(HasSubstr(chinese), HasSubstr("segmenter")));
  }
}

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
    return json_text(json{{"input", "Who?"},
                          {"context", context},
                          {"answers", {"He"}},
                          {"length", 1},
                          {"dataset", dataset},
                          {"_id", id}});
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
    json trec = parse_json(row("a", "A.", "trec"));
    trec["all_classes"] = classes;
    return read_longbench(options_of(write({json_text(trec)})), *demo_model());
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
