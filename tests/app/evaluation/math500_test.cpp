#include "app/evaluation/math500.hpp"

#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "tests/app/evaluation/made_results.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::evaluation {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MathOptions demo_options() {
  MathOptions options;
  options.data = {KEYSCOPE_SOURCE_DIR "/assets/eval/math.jsonl"};
  options.max_new_tokens = 8;
  return options;
}

TEST(Math500, RowsBecomePrompts) {
  const MathSet set = read_math(demo_options(), *demo_model());
  ASSERT_EQ(set.examples.size(), 3U);
  EXPECT_EQ(set.examples[0].id, "sum");
  EXPECT_EQ(demo_model()->tokenizer()->decode(set.examples[0].prompt_ids, true),
            "Problem:\nWhat is $3 + 4$?\n\nSolution:");
  EXPECT_THAT(set.examples[2].answers, ElementsAre("4"));  // of the solution's box
  EXPECT_EQ(set.examples[0].continuation.max_new_tokens, 8);
}

TEST(Math500, PlainAnswersEndWhereAnotherProblemBegins) {
  MathOptions options = demo_options();
  EXPECT_THAT(read_math(options, *demo_model()).examples[0].continuation.stop_texts, ElementsAre("Problem:"));
  options.prompt = "Q: {problem} A:";
  EXPECT_THAT(read_math(options, *demo_model()).examples[0].continuation.stop_texts, IsEmpty());
}

// Models with a chat template end their turn themselves.
TEST(Math500, ChatAnswersEndThemselves) {
  const test::ScratchFolder folder;
  std::filesystem::copy(kDemoModel, folder.file("chat"));
  std::ofstream(folder.file("chat/chat_template.jinja"))
      << "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
         "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
         "{% endif %}";
  const auto model = capture::Model::load(folder.file("chat"), {.dtype = capture::DType::kFloat32});
  const MathSet set = read_math(demo_options(), *model);
  EXPECT_THAT(model->tokenizer()->decode(set.examples[0].prompt_ids, false), HasSubstr("step by step"));
  EXPECT_THAT(set.examples[0].continuation.stop_texts, IsEmpty());
}

TEST(Math500, AnotherProblemIsNotScored) {
  const MathSet set = read_math(demo_options(), *demo_model());
  const auto& tokenizer = *demo_model()->tokenizer();
  capture::Completion completion;
  completion.generated = tokenizer.encode("\\boxed{7}\n\nProblem:\nWhat is $1+1$? \\boxed{2}", false);
  EXPECT_EQ(math_scorer(tokenizer)(set.examples[0], completion)[0], (Scores::value_type{"exact", 1}));
}

TEST(Math500, AnswersEndWhereTheContextDoes) {
  MathOptions options = demo_options();
  options.max_new_tokens = 1 << 20;
  const MathSet set = read_math(options, *demo_model());
  for (const Example& example : set.examples)
    EXPECT_EQ(example.continuation.max_new_tokens + std::ssize(example.prompt_ids),
              demo_model()->config().context_length);
}

TEST(Math500, SamplesDifferAndDoNotDependOnOtherRows) {
  MathOptions options = demo_options();
  options.temperature = 0.95;
  options.top_p = 0.95;
  options.samples = 4;
  const MathSet set = read_math(options, *demo_model());
  ASSERT_EQ(set.examples.size(), 12U);
  EXPECT_EQ(set.examples[5].id, "fraction, sample 2");
  EXPECT_EQ(set.examples[4].group, set.examples[7].group);
  std::set<std::uint64_t> seeds;
  for (const Example& example : set.examples) seeds.insert(example.continuation.sampling.seed);
  EXPECT_EQ(seeds.size(), 12U);
  options.rows = 1;
  EXPECT_EQ(read_math(options, *demo_model()).examples[3].continuation.sampling,
            set.examples[3].continuation.sampling);

  Settings settings;
  settings.blocks = {16};
  const auto evaluation = evaluate_demo(settings, set.examples, math_scorer(*demo_model()->tokenizer()));
  std::set<std::string> texts;
  for (std::size_t i = 0; i < 4; ++i) texts.insert(evaluation.results[i].text);
  EXPECT_GT(texts.size(), 1U);
  EXPECT_EQ(evaluation.results[0].score("generated"), 8);
}

TEST(Math500, AreScoredBothWays) {
  const MathSet set = read_math(demo_options(), *demo_model());
  const auto& tokenizer = *demo_model()->tokenizer();
  const Scorer scorer = math_scorer(tokenizer);
  capture::Completion completion;
  completion.generated = tokenizer.encode("It is \\boxed{\\frac{3}{4}}.", false);
  const auto n = static_cast<double>(completion.generated.size());
  EXPECT_EQ(scorer(set.examples[1], completion), (Scores{{"exact", 1}, {"flexible", 1}, {"generated", n}}));
  completion.generated = tokenizer.encode("The answer is 0.75.", false);
  EXPECT_EQ(scorer(set.examples[1], completion)[0].second, 0);
  EXPECT_EQ(scorer(set.examples[1], completion)[1].second, 1);
}

TEST(Math500, RefusesWhatCannotBe) {
  MathOptions options = demo_options();
  options.samples = 5;
  EXPECT_THROW(read_math(options, *demo_model()), UsageError);
  options = demo_options();
  options.prompt = "Solve it.";
  EXPECT_THROW(read_math(options, *demo_model()), UsageError);
  options = demo_options();
  options.temperature = -1;
  EXPECT_THROW(read_math(options, *demo_model()), UsageError);
  const test::ScratchFolder folder;
  std::ofstream(folder.file("twice.jsonl")) << R"({"problem": "?", "answer": "1", "unique_id": "a"})"
                                            << "\n"
                                            << R"({"problem": "!", "answer": "2", "unique_id": "a"})"
                                            << "\n";
  options = demo_options();
  options.data = {folder.file("twice.jsonl")};
  EXPECT_THROW(read_math(options, *demo_model()), FileError);
  options.skip_bad = true;
  EXPECT_EQ(read_math(options, *demo_model()).bad.size(), 1U);
}

MathRow row(const char* subject, std::int64_t level) { return {"", "?", "1", subject, level}; }

// Three problems of two samples each. The full cache solves the second sample of each, and the first of the
// last; its answers have 2, 100 and 100 tokens, behind prompts of 40.
class MathReports : public ::testing::Test {
 protected:
  const std::vector<MathRow> rows_{row("Algebra", 1), row("Algebra", 2), row("Geometry", 2)};
  const std::vector<GridPoint> grid_ = [] {
    Settings settings = made_settings();
    settings.budgets = parse_budgets({"50", "1000"});
    return grid_of(settings);
  }();
  const std::vector<ExampleResult> results_ =
      made_results(6, grid_, [](std::size_t i, const GridPoint& point) {
        const bool solved = i % 2 == 1 || i == 4;
        const double flexible = solved && (!point.evicts() || i != 5) ? 1 : 0;
        return Scores{{"exact", i == 5 && !point.evicts() ? 1 : 0},
                      {"flexible", flexible},
                      {"generated", i < 2 ? 2 : 100}};
      });
  const std::vector<MathCell> cells_ = math_report(ScoreTable(results_, grid_), rows_, 2, 1);
};

TEST_F(MathReports, CountAProblemByTheMeanOfItsSamples) {
  ASSERT_EQ(cells_.size(), 6U);
  EXPECT_EQ(cells_[0].all.n, 3);
  EXPECT_DOUBLE_EQ(cells_[0].all.flexible.mean, 2 / 3.0);
  EXPECT_DOUBLE_EQ(cells_[0].all.exact.mean, 0.5 / 3);
  EXPECT_DOUBLE_EQ(cells_[1].all.flexible.mean, 0.5);
  EXPECT_DOUBLE_EQ(cells_[1].all.flexible_difference.mean, -0.5 / 3);
  EXPECT_DOUBLE_EQ(cells_[0].generated, 202 / 3.0);
}

TEST_F(MathReports, ProblemsOverBudgetAreThoseThatTheFullCacheOutgrowsItBy) {
  EXPECT_EQ(cells_[0].over_budget.n, 0);  // the full cache has no budget
  EXPECT_EQ(cells_[1].over_budget.n, 2);  // 40 + 100 > 50, and 40 + 2 is not
  EXPECT_DOUBLE_EQ(cells_[1].over_budget.flexible.mean, 0.5);
  EXPECT_EQ(cells_[2].over_budget.n, 0);  // 1000 rows
}

TEST_F(MathReports, PartByLevelAndSubject) {
  ASSERT_EQ(cells_[0].by_level.size(), 2U);
  EXPECT_EQ(cells_[0].by_level[1].first, "2");
  EXPECT_DOUBLE_EQ(cells_[0].by_level[1].second.flexible.mean, 0.75);
  ASSERT_EQ(cells_[0].by_subject.size(), 2U);
  EXPECT_EQ(cells_[0].by_subject[0].first, "Algebra");
  EXPECT_DOUBLE_EQ(cells_[0].by_subject[0].second.flexible.mean, 0.5);
}

TEST_F(MathReports, SayInJsonAndInATable) {
  const auto report = math_json(cells_, grid_);
  ASSERT_EQ(report["cells"].size(), 6U);
  EXPECT_EQ(report["cells"][1]["policy"], "keydiff");
  EXPECT_EQ(report["cells"][1]["budget"], 50);
  EXPECT_EQ(report["cells"][1]["n"], 3);
  EXPECT_EQ(report["cells"][1]["over_budget"]["n"], 2);
  EXPECT_TRUE(report["cells"][2]["over_budget"]["exact"].is_null());
  EXPECT_FALSE(report["cells"][0].contains("over_budget"));
  EXPECT_EQ(report["cells"][0]["by_level"]["1"]["flexible"], 0.5);
  EXPECT_THAT(math_table(cells_, grid_), HasSubstr("0.667 ("));
}

using nlohmann::json;
using ::testing::AllOf;

json problem() {
  return {{"problem", "What is $1+1$?"},
          {"solution", "It is \\boxed{2}."},
          {"answer", "2"},
          {"subject", "Algebra"},
          {"level", 1},
          {"unique_id", "test/algebra/1.json"}};
}

std::string problem_refusal(const json& row) {
  try {
    read_math_row(row, "m.jsonl, line 2");
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

TEST(MathRows, AreRead) {
  const MathRow row = read_math_row(problem(), "");
  EXPECT_EQ(row.id, "test/algebra/1.json");
  EXPECT_EQ(row.problem, "What is $1+1$?");
  EXPECT_EQ(row.answer, "2");
  EXPECT_EQ(row.subject, "Algebra");
  EXPECT_EQ(row.level, 1);
}

TEST(MathRows, OfMathItselfAreReadToo) {
  json row{{"problem", "?"},
           {"solution", "It is \\boxed{\\frac{1}{2}}."},
           {"type", "Geometry"},
           {"level", "Level 5"}};
  EXPECT_EQ(read_math_row(row, "").answer, "\\frac{1}{2}");
  EXPECT_EQ(read_math_row(row, "").subject, "Geometry");
  EXPECT_EQ(read_math_row(row, "").level, 5);
  row.erase("level");
  EXPECT_EQ(read_math_row(row, "").level, std::nullopt);
}

TEST(MathRows, FieldsAreChecked) {
  json row = problem();
  row["problem"] = json::array();
  EXPECT_THAT(problem_refusal(row), AllOf(HasSubstr("m.jsonl, line 2"), HasSubstr("\"problem\"")));
  row["problem"] = "";
  EXPECT_THAT(problem_refusal(row), HasSubstr("\"problem\" is empty"));
  row = problem();
  row["level"] = "hard";
  EXPECT_THAT(problem_refusal(row), HasSubstr("\"level\""));
  row = problem();
  row.erase("answer");
  EXPECT_EQ(problem_refusal(row), "");
  row["solution"] = "It is 2.";
  EXPECT_THAT(problem_refusal(row), HasSubstr("boxes no answer"));
  row.erase("solution");
  EXPECT_THAT(problem_refusal(row), HasSubstr("neither \"answer\" nor \"solution\""));
}

TEST(MathPrompt, TakesTheProblemAsText) {
  EXPECT_EQ(math_prompt("Problem: {problem}\nAnswer:", "$\\frac{problem}{2}$"),
            "Problem: $\\frac{problem}{2}$\nAnswer:");
  EXPECT_EQ(math_prompt("{problem} Again: {problem}", "{problem}"), "{problem} Again: {problem}");
}

}  // namespace

}  // namespace keyscope::evaluation
