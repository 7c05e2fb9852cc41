#include "app/evaluation/lookup_scores.hpp"

#include <gtest/gtest.h>

namespace keyscope::evaluation {
namespace {

TEST(LookupScores, RecallFindsTheAnswerAnywhere) {
  EXPECT_EQ(lookup_recall(" 1234567.\nThe", "1234567"), 1);
  EXPECT_EQ(lookup_recall("It is 1234567, I think", "1234567"), 1);
  EXPECT_EQ(lookup_recall(" 12345678888", "1234567"), 1);
  EXPECT_EQ(lookup_recall("1234 567", "1234567"), 0);
  EXPECT_EQ(lookup_recall("anything", "the"), 1) << "an answer without words";
  EXPECT_EQ(lookup_recall("", "1234567"), 0);
  EXPECT_EQ(lookup_recall("Eat a Sandwich, in the park.", "eat sandwich in park"), 1);
}

TEST(LookupScores, RecallIsElseTheShareOfWords) {
  EXPECT_EQ(lookup_recall("park, then sandwich", "eat sandwich in park"), 0.5);
  EXPECT_EQ(lookup_recall("nothing", "eat sandwich in park"), 0);
}

TEST(LookupScores, ExactLooksAtTheBeginningOfTheFirstLine) {
  EXPECT_EQ(lookup_exact(" 1234567.", "1234567"), 1);
  EXPECT_EQ(lookup_exact("\n1234567 and more\n", "1234567"), 1);
  EXPECT_EQ(lookup_exact("It is 1234567", "1234567"), 0);
  EXPECT_EQ(lookup_exact("7\n1234567", "1234567"), 0);
  EXPECT_EQ(lookup_exact("", "1234567"), 0);
}

}  // namespace
}  // namespace keyscope::evaluation
