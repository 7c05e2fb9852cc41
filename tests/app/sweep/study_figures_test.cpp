#include "app/sweep/study_figures.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::sweep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Sample some(const std::string& policy, const std::string& budget, std::vector<double> values) {
  return {"eval niah", "recall", "model", policy, budget, 64, std::move(values)};
}

TEST(StudyFigures, DrawMeansAgainstBudgetsInTheirOrder) {
  const std::vector<Sample> all{some("none", "", {1, 0.5}), some("keydiff", "50%", {0.75}),
                                some("keydiff", "64", {0.25}), some("keydiff", "8%", {0, 0.5}),
                                some("sink:first=2", "8%", {1})};
  const auto figures = study_figures(all, "needles", 2);
  ASSERT_THAT(figures, SizeIs(1));
  EXPECT_EQ(figures.front().name, "eval-niah-recall");
  EXPECT_THAT(figures.front().caption, HasSubstr("2 cells of the study have no result"));
  const figures::Panel& panel = figures.front().panels.front();
  EXPECT_THAT(panel.x.categories, ElementsAre("8%", "50%", "64")) << "shares first";
  const auto line = [&](const std::string& id) {
    for (const auto& found : panel.lines)
      if (found.id == id) return found;
    ADD_FAILURE() << id;
    return figures::LineSeries{};
  };
  EXPECT_THAT(line("none").y, ElementsAre(0.75F, 0.75F));
  EXPECT_THAT(line("keydiff_curve").y, ElementsAre(0.25F, 0.75F, 0.25F));
  EXPECT_THAT(line("sink:first=2_curve").y, ElementsAre(1.0F)) << "missing budgets are missing";
}

TEST(StudyFigures, HaveAPanelForEveryModelAndBlockSize) {
  std::vector<Sample> all{some("keydiff", "8%", {1}), some("keydiff", "8%", {0})};
  all[1].block = 32;
  all.push_back({"eval niah", "recall", "another", "keydiff", "8%", 32, {1}});
  const auto figures = study_figures(all, "needles", 0);
  ASSERT_THAT(figures, SizeIs(1));
  ASSERT_THAT(figures.front().panels, SizeIs(3));
  EXPECT_EQ(figures.front().panels[2].title, "another, B = 32");
  EXPECT_TRUE(figures.front().shared_ranges);
}

TEST(StudyFigures, OfTheFullCacheAloneStandAgainstModels) {
  const std::vector<Sample> all{{"validate", "spearman", "a", "none", "", 64, {-0.5}},
                                {"validate", "spearman", "b", "none", "", 64, {-0.25, -0.75}}};
  const auto figures = study_figures(all, "keys", 0);
  ASSERT_THAT(figures, SizeIs(1));
  EXPECT_THAT(figures.front().panels.front().x.categories, ElementsAre("a", "b"));
  ASSERT_THAT(figures.front().panels.front().points, SizeIs(1));
  EXPECT_THAT(figures.front().panels.front().points.front().y, ElementsAre(-0.5F, -0.5F));
}

}  // namespace
}  // namespace keyscope::sweep
