#include "app/evaluation/json_rows.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/errors.hpp"
#include "tests/scratch_folder.hpp"

namespace keyscope::evaluation {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JsonRows : public ::testing::Test {
 protected:
  ReadRows read(const std::string& text, bool skip_bad) {
    std::ofstream(path_) << text;
    taken_.clear();
    return read_json_rows(path_, skip_bad, [&](const nlohmann::json& row, const std::string& where) {
      if (!row.contains("n")) throw FileError(where + ": \"n\" is missing");
      taken_.push_back(row["n"]);
    });
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
  std::filesystem::path path_ = folder_.path() / "rows.jsonl";
  std::vector<int> taken_;
};

TEST_F(JsonRows, AreTakenInOrderAndEmptyLinesAreNone) {
  EXPECT_EQ(read("{\"n\": 1}\n\n{\"n\": 2}\r\n{\"n\": 3}", false).n_rows, 3);
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
  std::filesystem::remove(path_);
  EXPECT_THROW(read_json_rows(path_, true, [](const nlohmann::json&, const std::string&) {}), FileError);
  EXPECT_THROW(read_json_rows(folder_.path(), true, [](const nlohmann::json&, const std::string&) {}),
               FileError);
}

}  // namespace
}  // namespace keyscope::evaluation
