#include "app/validation/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/validation/made_records.hpp"

namespace keyscope::validation {
namespace {

using measures::HeadMeasures;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<PromptRecord> records() {
  return test::made_records(3, [](PromptRecord& record, int i) {
    for (HeadMeasures& head : test::run_of(record, "none").heads) head.spearman = i + 10 * head.layer;
    for (HeadMeasures& head : test::run_of(record, "sink").heads) head.spearman = 2 * i;
    test::run_of(record, "keydiff").kl_nats = i;
    if (i == 1) test::run_of(record, "none").heads[1].spearman = std::nullopt;
  });
}

TEST(Summary, APromptsNumberIsTheMeanOfItsHeads) {
  EXPECT_THAT(samples_of(records(), quantity("spearman"), "none"), ElementsAre(5, 1, 7));
  EXPECT_THAT(samples_of(records(), quantity("spearman"), "none", 1), ElementsAre(10, 12));
  EXPECT_THAT(samples_of(records(), quantity("kl_nats"), "keydiff"), ElementsAre(0, 1, 2));
  EXPECT_THAT(samples_of(records(), quantity("kl_nats"), "keydiff", 0), IsEmpty());
  EXPECT_THAT(samples_of(records(), quantity("spearman"), "h2o"), IsEmpty());
}

TEST(Summary, DifferencesAreOfHeadsThatBothHave) {
  EXPECT_THAT(differences_of(records(), quantity("spearman"), "none", "sink"), ElementsAre(5, -1, 3));
  EXPECT_THAT(differences_of(records(), quantity("kl_nats"), "keydiff", "sink"), ElementsAre(0, 1, 2));
}

TEST(Summary, RowsAreAllMeansThatExist) {
  const auto made = records();
  const auto rows = summarise(made, {});
  EXPECT_DOUBLE_EQ(find_row(rows, "spearman", "none")->mean.mean, 13.0 / 3);
  EXPECT_EQ(find_row(rows, "spearman", "none", 1)->mean.n_samples, 2);
  EXPECT_EQ(find_row(rows, "kl_nats", "none"), nullptr);
  EXPECT_EQ(find_row(rows, "kl_nats", "keydiff", 0), nullptr);
  EXPECT_THAT(layers_of(made), ElementsAre(0, 1));
}

}  // namespace
}  // namespace keyscope::validation
