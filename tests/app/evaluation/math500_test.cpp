#include "app/evaluation/math500.hpp"

#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/app/evaluation/demo_evaluation.hpp"
#include "tests/scratch_folder.hpp"

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

}  // namespace
}  // namespace keyscope::evaluation
