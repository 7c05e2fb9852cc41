#include "app/evaluation/math_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::evaluation {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

json problem() {
  return {{"problem", "What is $1+1$?"},
          {"solution", "It is \\boxed{2}."},
          {"answer", "2"},
          {"subject", "Algebra"},
          {"level", 1},
          {"unique_id", "test/algebra/1.json"}};
}

std::string refusal(const json& row) {
  try {
    read_math_row(row, "m.jsonl, line 2");
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

TEST(MathRows, AreRead) {
  const MathRow row = read_math_row(problem(), "");
  EXPECT_EQ(row.id, "test/algebra/1.json");
  EXPECT_EQ(row.problem, "What is $1+1$?");
  EXPECT_EQ(row.answer, "2");
  EXPECT_EQ(row.subject, "Algebra");
  EXPECT_EQ(row.level, 1);
}

TEST(MathRows, OfMathItselfAreReadToo) {
  json row{{"problem", "?"},
           {"solution", "It is \\boxed{\\frac{1}{2}}."},
           {"type", "Geometry"},
           {"level", "Level 5"}};
  EXPECT_EQ(read_math_row(row, "").answer, "\\frac{1}{2}");
  EXPECT_EQ(read_math_row(row, "").subject, "Geometry");
  EXPECT_EQ(read_math_row(row, "").level, 5);
  row.erase("level");
  EXPECT_EQ(read_math_row(row, "").level, std::nullopt);
}

TEST(MathRows, FieldsAreChecked) {
  json row = problem();
  row["problem"] = json::array();
  EXPECT_THAT(refusal(row), AllOf(HasSubstr("m.jsonl, line 2"), HasSubstr("\"problem\"")));
  row["problem"] = "";
  EXPECT_THAT(refusal(row), HasSubstr("\"problem\" is empty"));
  row = problem();
  row["level"] = "hard";
  EXPECT_THAT(refusal(row), HasSubstr("\"level\""));
  row = problem();
  row.erase("answer");
  EXPECT_EQ(refusal(row), "");
  row["solution"] = "It is 2.";
  EXPECT_THAT(refusal(row), HasSubstr("boxes no answer"));
  row.erase("solution");
  EXPECT_THAT(refusal(row), HasSubstr("neither \"answer\" nor \"solution\""));
}

TEST(MathPrompt, TakesTheProblemAsText) {
  EXPECT_EQ(math_prompt("Problem: {problem}\nAnswer:", "$\\frac{problem}{2}$"),
            "Problem: $\\frac{problem}{2}$\nAnswer:");
  EXPECT_EQ(math_prompt("{problem} Again: {problem}", "{problem}"), "{problem} Again: {problem}");
}

}  // namespace
}  // namespace keyscope::evaluation
