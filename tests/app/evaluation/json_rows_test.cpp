#include "app/evaluation/json_rows.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::evaluation {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JsonRows : public ::testing::Test {
 protected:
  ReadRows read_all(bool skip_bad) {
    taken_.clear();
    return read_json_rows(paths_, skip_bad, [&](const nlohmann::json& row, const std::string& where) {
      if (!row.contains("n")) throw FileError(where + ": \"n\" is missing");
      taken_.push_back(row["n"]);
    });
  }
  ReadRows read(const std::string& text, bool skip_bad) {
    std::ofstream(paths_.at(0)) << text;
    return read_all(skip_bad);
  }
  std::string refusal(const std::string& text, bool skip_bad = false) {
    try {
      read(text, skip_bad);
    } catch (const FileError& error) {
      return error.what();
    }
    return "not refused";
  }

  test::ScratchFolder folder_;
  std::vector<std::filesystem::path> paths_{folder_.path() / "rows.jsonl"};
  std::vector<int> taken_;
};

TEST_F(JsonRows, AreTakenInOrderAndEmptyLinesAreNone) {
  EXPECT_EQ(read("{\"n\": 1}\n\n \t \r\n{\"n\": 2} \r\n{\"n\": 3}", false).n_rows, 3);
  EXPECT_THAT(taken_, ElementsAre(1, 2, 3));
}

TEST_F(JsonRows, AByteOrderMarkBeforeTheFirstIsNone) {
  EXPECT_EQ(read("\xEF\xBB\xBF{\"n\": 1}\n{\"n\": 2}\n", false).n_rows, 2);
  EXPECT_THAT(refusal("{\"n\": 1}\n\xEF\xBB\xBF{\"n\": 2}\n"), HasSubstr("line 2"));
}

TEST_F(JsonRows, BadOnesAreNamedAndCounted) {
  const std::string text = "{\"n\": 1}\nno json\n{\"m\": 2}\n{\"n\": 4}\n";
  EXPECT_THAT(refusal(text), HasSubstr("rows.jsonl, line 2"));
  EXPECT_THAT(refusal(text), HasSubstr("2 rows are bad (lines 2, 3)"));
  EXPECT_THAT(refusal("{\"n\": 1}\n[]\n"), HasSubstr("--skip-bad goes on without it"));
  const ReadRows rows = read(text, true);
  EXPECT_EQ(rows.n_rows, 2);
  ASSERT_EQ(rows.bad.size(), 2U);
  EXPECT_THAT(rows.bad[1], HasSubstr("line 3: \"n\" is missing"));
  EXPECT_THAT(taken_, ElementsAre(1, 4));
}

TEST_F(JsonRows, WithoutARowThereIsNothingToDo) {
  EXPECT_THAT(refusal("\n\n"), HasSubstr("there is no row; expected at least one"));
  EXPECT_THAT(refusal("x\n", true), HasSubstr("no row that can be used"));
  std::filesystem::remove(paths_[0]);
  EXPECT_THROW(read_all(true), FileError);
  paths_ = {folder_.path()};
  EXPECT_THROW(read_all(true), FileError);
}

TEST_F(JsonRows, OfSeveralFilesAreCountedTogether) {
  paths_.push_back(folder_.path() / "more.jsonl");
  paths_.push_back(folder_.path() / "none.jsonl");
  std::ofstream(paths_[1]) << "no json\n{\"n\": 2}\n";
  std::ofstream(paths_[2]) << "[]\n\n[]\n";
  const std::string text = "{\"n\": 1}\nno json\n";
  EXPECT_THAT(refusal(text), HasSubstr("rows.jsonl, line 2"));
  EXPECT_THAT(refusal(text), HasSubstr("4 rows are bad (rows.jsonl: line 2; more.jsonl: line 1; none.jsonl: "
                                       "lines 1, 3); --skip-bad goes on without them"));
  // A file of bad rows alone is no reason to stop where other rows can be used.
  EXPECT_EQ(read(text, true).bad.size(), 4U);
  EXPECT_THAT(taken_, ElementsAre(1, 2));
  std::ofstream(paths_[1]) << "no json\n";
  EXPECT_THAT(refusal("x\n", true), HasSubstr("3 files: there is no row that can be used"));
}

TEST_F(JsonRows, OfManyBadOnesTheFirstLinesAreListed) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "x\n";
  EXPECT_THAT(refusal(text), HasSubstr("30 rows are bad (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …)"));
}

}  // namespace
}  // namespace keyscope::evaluation
