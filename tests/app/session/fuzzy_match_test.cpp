#include "app/session/fuzzy_match.hpp"

#include <gtest/gtest.h>

namespace keyscope::session {
namespace {

TEST(FuzzyScore, LettersInOrderFitInEitherCase) {
  EXPECT_TRUE(fuzzy_score("xpt", "Export this view"));
  EXPECT_TRUE(fuzzy_score("ETV", "Export this view"));
  EXPECT_FALSE(fuzzy_score("vte", "Export this view"));
  EXPECT_FALSE(fuzzy_score("exporting", "Export this view"));
  EXPECT_FALSE(fuzzy_score("x", ""));
}

TEST(FuzzyScore, WordsFitInAnyOrder) {
  EXPECT_TRUE(fuzzy_score("view export", "Export this view"));
  EXPECT_TRUE(fuzzy_score("  view  ", "Export this view"));
  EXPECT_FALSE(fuzzy_score("view import", "Export this view"));
}

TEST(FuzzyScore, NothingTypedFitsEverything) {
  EXPECT_TRUE(fuzzy_score("", "Export this view"));
  EXPECT_TRUE(fuzzy_score(" ", ""));
}

TEST(FuzzyScore, BeginningsOfWordsAndLettersTogetherComeFirst) {
  EXPECT_GT(*fuzzy_score("text", "View: Text"), *fuzzy_score("text", "The exit"));
  EXPECT_GT(*fuzzy_score("lb", "Last block"), *fuzzy_score("lb", "Available"));
  EXPECT_GT(*fuzzy_score("cos", "View: Cosines"), *fuzzy_score("cos", "Measure: mean key query cosine"));
  EXPECT_GT(*fuzzy_score("earlier", "Earlier run: model: none, keydiff, sink"),
            *fuzzy_score("earlier", "Beside: keydiff, earlier run"));
}

// The first "a" is no beginning of "ab"; the quickest route from the left would take it.
TEST(FuzzyScore, TheBestRouteCounts) {
  EXPECT_EQ(*fuzzy_score("ab", "xaxxab"), *fuzzy_score("ab", "xxxxab"));
}

}  // namespace
}  // namespace keyscope::session
