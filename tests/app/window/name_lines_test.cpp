#include "app/panels/name_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope::window {
namespace {

using ::testing::ElementsAre;

// Every byte is ten pixels wide.
std::vector<std::string> lines(const std::string& name, float room) {
  return name_lines(name, room, [](const std::string& text) { return 10 * static_cast<float>(text.size()); });
}

TEST(NameLines, OnOneLineWhereItFits) {
  EXPECT_THAT(lines("log volume [nats]", 170), ElementsAre("log volume [nats]"));
}

TEST(NameLines, OnTwoLinesOfLikeLength) {
  EXPECT_THAT(lines("log volume [nats]", 169), ElementsAre("log volume", "[nats]"));
  EXPECT_THAT(lines("share of the full cache's attention", 250),
              ElementsAre("share of the full", "cache's attention"));
}

TEST(NameLines, TheSecondLineIsCutWhereTwoAreTooFew) {
  EXPECT_THAT(lines("share of the full cache's attention", 130), ElementsAre("share of the", "full cache…"));
}

TEST(NameLines, AWordThatIsTooLongIsCut) {
  EXPECT_THAT(lines("participation", 80), ElementsAre("parti…"));
  EXPECT_THAT(lines("participation ratio", 80), ElementsAre("parti…"));
}

TEST(CutText, CutsBetweenCharactersNotBytes) {
  const auto measure = [](const std::string& text) { return 10 * static_cast<float>(text.size()); };
  EXPECT_EQ(cut_text("ρρρρ", 80, measure), "ρρρρ");
  EXPECT_EQ(cut_text("ρρρρ", 70, measure), "ρρ…");
  EXPECT_EQ(cut_text("abc", 5, measure), "…");
}

}  // namespace
}  // namespace keyscope::window
