#include "app/evaluation/drawn_words.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::evaluation {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DrawnWords : public ::testing::Test {
 protected:
  Words read(const std::string& text, bool skip_bad = false) const {
    std::ofstream(folder_.file("words.txt"), std::ios::binary) << text;
    return words_of(folder_.file("words.txt").string(), city_names(), skip_bad);
  }
  std::string refusal(const std::string& text) const {
    try {
      read(text);
    } catch (const FileError& error) {
      return error.what();
    }
    return "not refused";
  }

  test::ScratchFolder folder_;
};

TEST_F(DrawnWords, HaveNoSpaceAtTheirEnds) {
  const Words words = read("  New York \t\r\n\n\u00a0\u3000Troms\u00f8\u2009\nOslo");
  EXPECT_THAT(words.words, ElementsAre("New York", "Troms\u00f8", "Oslo"));
  EXPECT_THAT(words.bad_rows, IsEmpty());
}

TEST_F(DrawnWords, AreThereOnceWithoutThatSpace) {
  EXPECT_THAT(refusal("Oslo\nLima\n\u00a0Oslo \n"), HasSubstr("words.txt, line 3: Oslo is there twice"));
}

TEST_F(DrawnWords, BlankLinesAndControlCharactersAreNone) {
  EXPECT_THAT(refusal("Oslo\n  \t \n\u00a0\nLi\tma\n"),
              AllOf(HasSubstr("line 2: is blank"), HasSubstr("3 rows are bad (lines 2, 3, 4)")));
  EXPECT_THAT(refusal("Li\tma\n"), HasSubstr("line 1: has the control character U+0009"));
  EXPECT_THAT(refusal("Li\u0085ma\n"), HasSubstr("U+0085"));
  EXPECT_THAT(refusal("Lim\xE1\n"), HasSubstr("line 1: is no UTF-8"));
  const Words words = read("Oslo\n \nLi\x01ma\nLima\n", true);
  EXPECT_THAT(words.words, ElementsAre("Oslo", "Lima"));
  EXPECT_EQ(words.bad_rows.size(), 2U);
}

TEST_F(DrawnWords, AreTheEmbeddedOnesWithoutAFile) {
  EXPECT_EQ(words_of("", city_names(), false).words.size(), city_names().size());
}

}  // namespace
}  // namespace keyscope::evaluation
