#include "app/evaluation/longbench_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::evaluation {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json row_of(const char* dataset) {
  return {{"input", "Who?"},    {"context", "He."}, {"answers", {"He", "him"}}, {"length", 2099},
          {"dataset", dataset}, {"language", "en"}, {"all_classes", nullptr},   {"_id", "e45a"}};
}

std::string refusal(const json& row, std::string_view default_task = "") {
  try {
    read_longbench_row(row, default_task, "f.jsonl, line 3");
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

TEST(LongBenchRows, AreRead) {
  const LongBenchRow row = read_longbench_row(row_of("qasper"), "", "");
  EXPECT_EQ(row.task, find_longbench_task("qasper"));
  EXPECT_EQ(row.dataset, "qasper");
  EXPECT_EQ(row.id, "e45a");
  EXPECT_EQ(row.input, "Who?");
  EXPECT_EQ(row.context, "He.");
  EXPECT_THAT(row.answers, ElementsAre("He", "him"));
  EXPECT_TRUE(row.all_classes.empty());
  EXPECT_EQ(row.length, 2099);
}

TEST(LongBenchRows, ANamedTaskIsForRowsWithoutOne) {
  json row = row_of("qasper");
  EXPECT_EQ(read_longbench_row(row, "musique", "").task->name, "qasper");
  row.erase("dataset");
  EXPECT_EQ(read_longbench_row(row, "musique", "").task->name, "musique");
  EXPECT_EQ(read_longbench_row(row, "musique_e", "").task->name, "musique");
  EXPECT_EQ(read_longbench_row(row, "musique_e", "").dataset, "musique_e");
  EXPECT_THAT(refusal(row), AllOf(HasSubstr("f.jsonl, line 3"), HasSubstr("\"dataset\" is not there")));
}

TEST(LongBenchRows, FieldsAreChecked) {
  for (const char* field : {"input", "context", "answers"}) {
    json row = row_of("qasper");
    row[field] = 7;
    EXPECT_THAT(refusal(row), AllOf(HasSubstr("f.jsonl, line 3"), HasSubstr(field), HasSubstr("is \"7\"")));
    row.erase(field);
    EXPECT_THAT(refusal(row), AllOf(HasSubstr(field), HasSubstr("is not there")));
  }
  json row = row_of("qasper");
  row["answers"] = json::array();
  EXPECT_THAT(refusal(row), HasSubstr("\"answers\" is empty"));
  row["answers"] = {"one", 2};
  EXPECT_THAT(refusal(row), HasSubstr("array of texts"));
  row = row_of("qasper");
  row["length"] = "long";
  EXPECT_THAT(refusal(row), HasSubstr("number of words"));
  EXPECT_THAT(refusal(row_of("dureader")), HasSubstr("Chinese"));
  EXPECT_THAT(refusal(row_of("squad")), HasSubstr("narrativeqa"));
}

TEST(LongBenchRows, AnswersThatCannotBeScoredAreRefused) {
  EXPECT_THAT(refusal(row_of("trec")), HasSubstr("all_classes"));
  json classes = row_of("trec");
  classes["all_classes"] = {"City", "Date"};
  EXPECT_THAT(read_longbench_row(classes, "", "").all_classes, ElementsAre("City", "Date"));
  EXPECT_THAT(refusal(row_of("passage_retrieval_en")), HasSubstr("names no paragraph"));
  json paragraph = row_of("passage_retrieval_en");
  paragraph["answers"] = {"Paragraph 12"};
  EXPECT_EQ(refusal(paragraph), "");
}

}  // namespace
}  // namespace keyscope::evaluation
