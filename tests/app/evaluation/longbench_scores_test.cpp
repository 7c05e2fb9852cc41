#include "app/evaluation/longbench_scores.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/app/evaluation/evaluation_goldens.hpp"

namespace keyscope::evaluation {
namespace {

double score(const char* task, const char* prediction, const std::vector<std::string>& answers,
             const std::vector<std::string>& classes = {}) {
  return longbench_score(*find_longbench_task(task), prediction, answers, classes);
}

TEST(LongBenchScores, TakeTheBestAnswer) {
  EXPECT_EQ(score("qasper", "a red house", {"blue", "the red house"}), 1);
  EXPECT_EQ(score("qasper", "yes", {"no"}), 0);
}

TEST(LongBenchScores, OfFewShotTasksTakeTheFirstLine) {
  EXPECT_EQ(score("triviaqa", "\n\nParis\nPassage: London", {"Paris"}), 1);
  EXPECT_LT(score("hotpotqa", "\n\nParis\nPassage: London", {"Paris"}), 1);
  EXPECT_EQ(score("trec", "City\nDate", {"City"}, {"City", "Date"}), 1);
  EXPECT_EQ(score("trec", "City, Date", {"City"}, {"City", "Date"}), 0.5);
}

TEST(LongBenchScores, GoByTheTask) {
  EXPECT_EQ(score("passage_count", "5, 5, 6", {"5"}), 2 / 3.0);
  EXPECT_EQ(score("passage_retrieval_en", "Paragraph 3", {"Paragraph 3"}), 1);
  EXPECT_EQ(score("lcc", "return x\n", {"return x"}), 1);
  EXPECT_NEAR(score("multi_news", "one two. three", {"one two. three"}), 1, 1e-8);
}

TEST(LongBenchScores, RoundAsPython) {
  for (const auto& golden : read_goldens("longbench_goldens.json", "percents"))
    EXPECT_EQ(two_decimals(100 * golden["total"].get<double>() / golden["n"].get<double>()),
              golden["percent"].get<double>())
        << golden.dump();
}

// 100 times the mean is below the tie here, and what is rounded down becomes 14.37.
TEST(LongBenchScores, OfATaskAreSummedBeforeTheyAreDivided) {
  std::vector<double> scores(160);
  std::fill_n(scores.begin(), 23, 1.0);
  EXPECT_EQ(task_points(scores), 14.375);
  EXPECT_EQ(two_decimals(task_points(scores)), 14.38);
}

TEST(LongBenchScores, LengthsGoIntoBins) {
  EXPECT_EQ(length_bin(0), "0-4k");
  EXPECT_EQ(length_bin(3999), "0-4k");
  EXPECT_EQ(length_bin(4000), "4-8k");
  EXPECT_EQ(length_bin(7999), "4-8k");
  EXPECT_EQ(length_bin(8000), "8k+");
}

}  // namespace
}  // namespace keyscope::evaluation
