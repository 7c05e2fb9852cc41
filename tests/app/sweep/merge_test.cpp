#include "app/sweep/merge.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/figures/nexus.hpp"
#include "app/sweep/study_file.hpp"
#include "app/sweep/study_table.hpp"
#include "app/sweep/sweep_folder.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::sweep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Cells of two policies at two budgets whose score is their number.
class Merge : public ::testing::Test {
 protected:
  Merge() {
    plan_.study = study_of(
        {{"name", "counted"}, {"models", {"some/model"}}, {"jobs", {{{"command", "eval niah"}}}}}, "a study");
    plan_.program_version = "1.2";
    plan_.models = {{"some/model", "aa", "bb"}};
    for (const char* policy : {"none", "keydiff", "sink:first=2"})
      for (const char* budget : {"25%", "10%"}) {
        const bool full = std::string(policy) == "none";
        if (full && std::string(budget) == "10%") continue;
        for (int sample = 0; sample < 3; ++sample) add(policy, full ? "" : budget, sample);
      }
    folder_.write(plan_);
  }

  void add(const std::string& policy, const std::string& budget, int sample) {
    Cell cell;
    cell.index = std::ssize(plan_.cells);
    cell.id = cell.batch = cell_digest({{"cell", cell.index}});
    cell.about = fmt::format(R"({{"policy":"{}","budget":"{}","block":64,"sample":{},"note":"a, \"b\""}})",
                             policy, budget, sample);
    plan_.cells.push_back(cell);
  }
  void finish(std::size_t i, const std::string& version = "1.2") const {
    write_result(folder_, {plan_.cells[i].id, version, "node:1", 0.5, 0},
                 fmt::format("{{\"score\":{}}}\n", i), "token");
  }
  void finish_all() const {
    for (std::size_t i = 0; i < plan_.cells.size(); ++i) finish(i);
  }
  MergeOutcome merged(const std::string& name = "study.h5") const {
    const auto read = [](const StudyJob&, const std::string& lines) {
      return std::vector<Measure>{{"score", "", nlohmann::json::parse(lines).at("score").get<double>()}};
    };
    return merge(folder_, plan_, read, scratch_.file(name), {});
  }

  test::ScratchFolder scratch_;
  SweepFolder folder_{scratch_.file("folder")};
  Plan plan_;
};

TEST_F(Merge, PutsEveryResultIntoOneFile) {
  finish_all();
  const MergeOutcome outcome = merged();
  EXPECT_EQ(outcome.n_done, std::ssize(plan_.cells));
  const StudyFile study(scratch_.file("study.h5"));
  EXPECT_EQ(study.name(), "counted");
  EXPECT_EQ(study.n_in_state(kDone), outcome.n_done);
  for (std::size_t i = 0; i < plan_.cells.size(); ++i)
    EXPECT_EQ(study.lines(plan_.cells[i].id), fmt::format("{{\"score\":{}}}\n", i));
  EXPECT_EQ(study.lines("another"), std::nullopt);
  const auto figures = figures::read_figures(scratch_.file("study.h5"));
  ASSERT_THAT(figures.figures, SizeIs(1));
  const figures::Panel& panel = figures.figures.front().panels.front();
  EXPECT_THAT(panel.x.categories, ElementsAre("10%", "25%"));
  EXPECT_EQ(panel.title, "model, B = 64");
}

TEST_F(Merge, GivesTheSameFileOfTheSameResults) {
  finish_all();
  merged("one.h5");
  for (const Cell& cell : plan_.cells) std::filesystem::remove(folder_.result(cell.id));
  for (std::size_t i = plan_.cells.size(); i-- > 0;)
    write_result(folder_, {plan_.cells[i].id, "1.2", "another:2", 7.5, 0},
                 fmt::format("{{\"score\":{}}}\n", i), "other");
  merged("two.h5");
  EXPECT_EQ(read_file(scratch_.file("one.h5")), read_file(scratch_.file("two.h5")));
}

TEST_F(Merge, ShowsWhatIsMissingAsMissing) {
  for (const std::size_t i : {0, 1, 4}) finish(i);
  write_failure(folder_, {plan_.cells[5].id, "node:1", "no room on the \"disk\", at all"}, "token");
  const MergeOutcome outcome = merged();
  EXPECT_EQ(outcome.n_done, 3);
  EXPECT_EQ(outcome.n_failed, 1);
  EXPECT_EQ(outcome.n_missing, std::ssize(plan_.cells) - 4);
  const std::string csv = table_csv(outcome.table);
  EXPECT_THAT(csv, HasSubstr(",failed,\"no room on the \"\"disk\"\", at all\","));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + std::ssize(plan_.cells));
  const StudyFile study(scratch_.file("study.h5"));
  EXPECT_EQ(study.lines(plan_.cells[5].id), std::nullopt);
  EXPECT_EQ(study.n_in_state(kMissing), outcome.n_missing);
  const auto figures = figures::read_figures(scratch_.file("study.h5"));
  EXPECT_THAT(figures.figures.front().caption, HasSubstr("12 cells of the study have no result"));
}

TEST_F(Merge, NamesResultsThatCannotBeUsedAndTakesTheRest) {
  finish_all();
  const auto half = folder_.result(plan_.cells[2].id), other = folder_.result(plan_.cells[3].id);
  const std::string whole = read_file(half);
  std::ofstream(half, std::ios::binary) << whole.substr(0, whole.size() - 5);
  finish(3, "1.1");
  const MergeOutcome outcome = merged();
  EXPECT_EQ(outcome.n_done, std::ssize(plan_.cells) - 2);
  EXPECT_EQ(outcome.n_damaged, 2);
  ASSERT_THAT(outcome.damages, SizeIs(2));
  EXPECT_THAT(outcome.damages[0], AllOf(HasSubstr(half.string()), HasSubstr("found 0 lines; expected 1"),
                                        HasSubstr("delete it")));
  EXPECT_THAT(outcome.damages[1],
              AllOf(HasSubstr(other.string()), HasSubstr("was made by keyscope 1.1"), HasSubstr("1.2")));
  EXPECT_TRUE(std::filesystem::exists(half)) << "nothing is deleted unasked";
}

TEST_F(Merge, DoesNotMixTheTasksOfAReport) {
  plan_.study.jobs.front().command = "report";
  for (std::size_t i = 0; i < plan_.cells.size(); ++i)
    plan_.cells[i].about = fmt::format(R"({{"task":"{}","policy":"keydiff","budget":"25%","block":64}})",
                                       i % 2 == 0 ? "niah" : "phonebook");
  finish_all();
  merged();
  const auto figures = figures::read_figures(scratch_.file("study.h5"));
  ASSERT_THAT(figures.figures, SizeIs(2));
  EXPECT_EQ(figures.figures[0].name, "report-niah-score");
  EXPECT_EQ(figures.figures[1].name, "report-phonebook-score");
}

TEST_F(Merge, CutsMessagesBetweenCharactersAndNamesAtNoZeroByte) {
  write_failure(folder_,
                {plan_.cells[0].id, "node:1",
                 "x" +
                     [] {
                       std::string text;
                       for (int i = 0; i < 300; ++i) text += "é";
                       return text;
                     }()},
                "token");
  plan_.cells[1].about = R"({"prompt":"a\u0000b"})";
  const MergeOutcome outcome = merged();
  const std::string csv = table_csv(outcome.table);
  EXPECT_TRUE(is_utf8(csv));
  EXPECT_EQ(csv.find("\xEF\xBF\xBD"), std::string::npos) << "half a character became U+FFFD";
  EXPECT_THAT(csv, HasSubstr("a b"));
}

TEST_F(Merge, RefusesAnExistingFileAndLeavesNothingWhereItIsEnded) {
  finish_all();
  std::ofstream(scratch_.file("study.h5")) << "mine";
  EXPECT_THROW(merged(), FileError);
  EXPECT_EQ(read_file(scratch_.file("study.h5")), "mine");
  MergeOptions options;
  options.progress = [](std::int64_t, std::int64_t) { throw Cancelled("interrupted"); };
  EXPECT_THROW(merge(folder_, plan_, {}, scratch_.file("other.h5"), options), Cancelled);
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
    EXPECT_THAT(entry.path().filename().string(), ::testing::AnyOf("study.h5", "folder"));
}

TEST_F(Merge, ADamagedStudyIsRefusedByName) {
  finish_all();
  merged();
  const auto file = scratch_.file("study.h5");
  EXPECT_THROW(StudyFile(folder_.path() / "plan.json"), FileError);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  try {
    StudyFile{file};
    FAIL() << "half a file was read";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("study.h5"));
  }
}

TEST(StudyTable, ColumnsComeWithTheirFirstValueAndBecomeTextsWithTheirFirstText) {
  StudyTable table;
  table.add_row();
  table.set("a", 0.1);
  table.add_row();
  table.set("b", std::string("x,y"));
  table.add_row();
  table.set("a", std::string("both"));
  table.set("c", std::numeric_limits<double>::quiet_NaN());
  table.fill();
  EXPECT_EQ(table_csv(table), "a,b,c\n0.1,,\n,\"x,y\",\nboth,,\n");
}

TEST(StudyTable, TakesNumbersTruthsAndTextsOfAnObject) {
  StudyTable table;
  table.add_row();
  table.set_members({{"n", 3}, {"yes", true}, {"text", "t"}, {"list", {1, 2}}, {"none", nullptr}});
  table.fill();
  EXPECT_EQ(table_csv(table), "n,yes,text\n3,1,t\n");
}

}  // namespace
}  // namespace keyscope::sweep
