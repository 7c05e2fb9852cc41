#include "app/session/cell_facts.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/figures/registry.hpp"
#include "app/figures/token_label.hpp"
#include "app/measures/token_story.hpp"
#include "tests/app/session/synthetic_recording.hpp"

namespace keyscope::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const SyntheticRecording& recording() {
  static const SyntheticRecording made({.n_tokens = 320, .block_size = 64, .budget = 128});
  return made;
}

std::vector<std::string> facts(const std::string& name, const MatrixCell& cell, int max_size = 1024) {
  figures::FigureRequest request;
  request.name = name;
  request.runs = {"keydiff"};
  request.max_size = max_size;
  const figures::Figure figure = figures::build_figure(recording(), request);
  return cell_facts(*recording().info(), 1, name, *figure.panels.front().heatmap, cell);
}

std::string text_of(std::int64_t position) {
  return figures::token_label(measures::token_bytes(*recording().info(), 1, position));
}

TEST(CellFacts, OfAttentionSayWhoAttendsToWhom) {
  EXPECT_THAT(
      facts("attention", {200, 7, 0.125F}),
      ElementsAre("query 200  " + text_of(200), "attends to key 7  " + text_of(7), "attention weight 0.125"));
  EXPECT_THAT(facts("attention", {7, 200, NAN}).back(), HasSubstr("not visible"));
}

TEST(CellFacts, OfCosinesNameTwoKeys) {
  EXPECT_THAT(facts("cosine-matrix", {3, 4, -0.5F}),
              ElementsAre(StartsWith("key 3  "), StartsWith("and key 4  "), "cosine of two keys −0.5"));
}

TEST(CellFacts, OfLivesAreATokenAndABlock) {
  EXPECT_THAT(facts("lifespans", {5, 2, NAN}),
              ElementsAre("token 5  " + text_of(5), "during block 2", HasSubstr("not in the cache")));
}

TEST(CellFacts, SayWhereSeveralTokensShareACell) {
  EXPECT_THAT(facts("cosine-matrix", {8, 4, 0.25F}, 80).back(),
              "cosine of two keys 0.25, mean of 4 × 4 cells");
}

}  // namespace
}  // namespace keyscope::session
