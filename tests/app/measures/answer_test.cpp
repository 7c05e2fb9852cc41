// Which of the generated tokens answer.

#include "app/measures/answer.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace keyscope::measures {
namespace {

recording::TokenText generated(const std::vector<std::string>& tokens) {
  recording::TokenText text;
  text.offset.push_back(0);
  for (const std::string& token : tokens) {
    text.id.push_back(static_cast<std::int32_t>(text.id.size()));
    text.text += token;
    text.offset.push_back(static_cast<std::int64_t>(text.text.size()));
  }
  return text;
}

// A letter a token: r right, w wrong, - neither.
std::string marks(const std::vector<std::string>& tokens, const std::string& answer) {
  std::string letters;
  for (const AnswerMark mark : mark_answer(generated(tokens), answer))
    letters += mark == AnswerMark::kNone ? '-' : mark == AnswerMark::kRight ? 'r' : 'w';
  return letters;
}

TEST(MarkAnswer, ARightAnswerIsRightWhereverItStands) {
  EXPECT_EQ(marks({" 88", "49", "914", ".\n"}, "8849914"), "rrr-");
  EXPECT_EQ(marks({"It is", " ", "26", "45!"}, "2645"), "--rr");
}

TEST(MarkAnswer, AWrongAnswerIsRightUntilItPartsAndWrongToTheAnswersLength) {
  EXPECT_EQ(marks({" 88", "41", "914", ".", " More"}, "8849914"), "rww--");
}

TEST(MarkAnswer, AnAnswerThatIsStillComingIsRightSoFar) {
  EXPECT_EQ(marks({" 88", "49"}, "8849914"), "rr");
  EXPECT_EQ(marks({" "}, "8849914"), "-");
}

TEST(MarkAnswer, NothingIsMarkedWithoutAnAnswer) {
  EXPECT_EQ(marks({"a", "b"}, ""), "--");
  EXPECT_EQ(marks({}, "2645"), "");
  EXPECT_FALSE(is_answered(generated({"a"}), ""));
}

TEST(RightAnswer, StandsInTheCapturesConfiguration) {
  recording::RecordingInfo info;
  info.provenance.configuration = R"({"answer": "2645", "block": 64})";
  EXPECT_EQ(right_answer(info), "2645");
  for (const char* none : {"", "{}", "[]", R"({"answer": 3})", "not JSON"}) {
    info.provenance.configuration = none;
    EXPECT_EQ(right_answer(info), "") << none;
  }
}

}  // namespace
}  // namespace keyscope::measures
