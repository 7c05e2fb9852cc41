#include "app/sweep/merge.hpp"

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/inotify.h>
#include <unistd.h>

#include "app/figures/nexus.hpp"
#include "app/sweep/study_file.hpp"
#include "app/sweep/study_table.hpp"
#include "app/sweep/sweep_folder.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "capture/recording/recording.hpp"
#include "tests/app/sweep/planned_cells.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/synthetic_capture.hpp"

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
    write_plan(folder_, plan_, cells_);
  }

  void add(const std::string& policy, const std::string& budget, int sample) {
    Cell cell;
    cell.index = std::ssize(cells_);
    cell.id = cell.batch = cell_digest({{"cell", cell.index}});
    cell.about = fmt::format(R"({{"policy":"{}","budget":"{}","block":64,"sample":{},"note":"a, \"b\""}})",
                             policy, budget, sample);
    cells_.push_back(cell);
  }
  void finish(std::size_t i, const std::string& version = "1.2") const {
    write_result(folder_, {cells_[i].id, version, "node:1", 0.5, 0}, fmt::format("{{\"score\":{}}}\n", i),
                 "token");
  }
  void finish_all() const {
    for (std::size_t i = 0; i < cells_.size(); ++i) finish(i);
  }
  MergeOutcome merged(const std::string& name = "study.h5") const {
    const auto read = [](const StudyJob&, const std::string& lines, const std::string&) {
      return std::vector<Measure>{{"score", "", nlohmann::json::parse(lines).at("score").get<double>()}};
    };
    return merge(folder_, plan_, read, scratch_.file(name), {});
  }

  test::ScratchFolder scratch_;
  SweepFolder folder_{scratch_.file("folder")};
  Plan plan_;
  std::vector<Cell> cells_;
};

std::string csv_of(StudyTable& table) {
  std::string text;
  write_csv(table, [&](std::string_view some) { text += some; });
  return text;
}

TEST_F(Merge, PutsEveryResultIntoOneFile) {
  finish_all();
  const MergeOutcome outcome = merged();
  EXPECT_EQ(outcome.n_done, std::ssize(cells_));
  const StudyFile study(scratch_.file("study.h5"));
  EXPECT_EQ(study.name(), "counted");
  EXPECT_EQ(study.n_in_state(kDone), outcome.n_done);
  for (std::size_t i = 0; i < cells_.size(); ++i)
    EXPECT_EQ(study.lines(cells_[i].id), fmt::format("{{\"score\":{}}}\n", i));
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
  for (const Cell& cell : cells_) std::filesystem::remove(folder_.result(cell.id));
  for (std::size_t i = cells_.size(); i-- > 0;)
    write_result(folder_, {cells_[i].id, "1.2", "another:2", 7.5, 0}, fmt::format("{{\"score\":{}}}\n", i),
                 "other");
  merged("two.h5");
  EXPECT_EQ(read_file(scratch_.file("one.h5")), read_file(scratch_.file("two.h5")));
}

TEST_F(Merge, ShowsWhatIsMissingAsMissing) {
  for (const std::size_t i : {0, 1, 4}) finish(i);
  write_failure(folder_, {cells_[5].id, "node:1", "no room on the \"disk\", at all"}, "token");
  MergeOutcome outcome = merged();
  EXPECT_EQ(outcome.n_done, 3);
  EXPECT_EQ(outcome.n_failed, 1);
  EXPECT_EQ(outcome.n_missing, std::ssize(cells_) - 4);
  const std::string csv = csv_of(outcome.table);
  EXPECT_THAT(csv, HasSubstr(",failed,\"no room on the \"\"disk\"\", at all\","));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + std::ssize(cells_));
  const StudyFile study(scratch_.file("study.h5"));
  EXPECT_EQ(study.lines(cells_[5].id), std::nullopt);
  EXPECT_EQ(study.n_in_state(kMissing), outcome.n_missing);
  const auto figures = figures::read_figures(scratch_.file("study.h5"));
  EXPECT_THAT(figures.figures.front().caption, HasSubstr("12 cells of the study have no result"));
}

TEST_F(Merge, NamesResultsThatCannotBeUsedAndTakesTheRest) {
  finish_all();
  const auto half = folder_.result(cells_[2].id), other = folder_.result(cells_[3].id);
  const std::string whole = read_file(half);
  std::ofstream(half, std::ios::binary) << whole.substr(0, whole.size() - 5);
  finish(3, "1.1");
  const MergeOutcome outcome = merged();
  EXPECT_EQ(outcome.n_done, std::ssize(cells_) - 2);
  EXPECT_EQ(outcome.n_damaged, 2);
  ASSERT_THAT(outcome.damages, SizeIs(2));
  EXPECT_THAT(outcome.damages[0], AllOf(HasSubstr(half.string()), HasSubstr("found 0 lines; expected 1"),
                                        HasSubstr("delete " + half.string())));
  EXPECT_THAT(outcome.damages[1],
              AllOf(HasSubstr(other.string()), HasSubstr("was made by keyscope 1.1"), HasSubstr("1.2")));
  EXPECT_TRUE(std::filesystem::exists(half)) << "nothing is deleted unasked";
}

// Lines that are not the command's, and recordings that are not there, cut off, or no cell's.
TEST_F(Merge, NamesResultsWhoseContentsCannotBeUsedAndTakesTheRest) {
  for (const std::size_t i : {0, 1, 2}) cells_[i].joint = "prompt";
  write_plan(folder_, plan_, cells_);
  finish_all();
  std::ofstream(folder_.recording(cells_[1].id), std::ios::binary) << "\211HDF\r\n\032\n and no more";
  const auto writer = recording::make_recording_writer(folder_.recording(cells_[2].id), false);
  recording::SyntheticCapture().send(*writer);
  writer->end(true);
  const auto read = [](const StudyJob&, const std::string& lines, const std::string& where) {
    if (lines.find(":3}") != std::string::npos) throw FileError(where + ": score is 3");
    return std::vector<Measure>{};
  };
  const MergeOutcome outcome = merge(folder_, plan_, read, scratch_.file("study.h5"), {});
  EXPECT_EQ(outcome.n_done, std::ssize(cells_) - 4);
  EXPECT_EQ(outcome.n_recordings, 0);
  const auto result = [&](std::size_t i) { return folder_.result(cells_[i].id).string(); };
  const auto advice = [&](std::size_t i) { return HasSubstr("delete " + result(i)); };
  EXPECT_THAT(
      outcome.damages,
      ElementsAre(AllOf(HasSubstr(folder_.recording(cells_[0].id).string() + ": "), advice(0)),
                  AllOf(HasSubstr(folder_.recording(cells_[1].id).string() + ": "), advice(1)),
                  AllOf(HasSubstr(folder_.recording(cells_[2].id).string() + ": it has 2 runs"), advice(2)),
                  AllOf(HasSubstr(result(3) + ": score is 3"), advice(3))));
}

TEST_F(Merge, DoesNotMixTheTasksOfAReport) {
  plan_.study.jobs.front().command = "report";
  for (std::size_t i = 0; i < cells_.size(); ++i)
    cells_[i].about = fmt::format(R"({{"task":"{}","policy":"keydiff","budget":"25%","block":64}})",
                                  i % 2 == 0 ? "niah" : "phonebook");
  write_plan(folder_, plan_, cells_);
  finish_all();
  merged();
  const auto figures = figures::read_figures(scratch_.file("study.h5"));
  ASSERT_THAT(figures.figures, SizeIs(2));
  EXPECT_EQ(figures.figures[0].name, "report-niah-score");
  EXPECT_EQ(figures.figures[1].name, "report-phonebook-score");
}

TEST_F(Merge, HasNoMeanOverWhatIsNoNumber) {
  finish_all();
  const auto read = [](const StudyJob&, const std::string& lines, const std::string&) {
    const double score = nlohmann::json::parse(lines).at("score").get<double>();
    return std::vector<Measure>{{"score", "", score == 3 ? std::nan("") : score}};
  };
  merge(folder_, plan_, read, scratch_.file("study.h5"), {});
  const auto figures = figures::read_figures(scratch_.file("study.h5"));
  EXPECT_THAT(figures.figures.front().caption, HasSubstr("means over 14 numbers"));
}

TEST_F(Merge, CutsMessagesBetweenCharactersAndNamesAtNoZeroByte) {
  write_failure(folder_,
                {cells_[0].id, "node:1",
                 "x" +
                     [] {
                       std::string text;
                       for (int i = 0; i < 300; ++i) text += "é";
                       return text;
                     }()},
                "token");
  cells_[1].about = R"({"prompt":"a\u0000b"})";
  write_plan(folder_, plan_, cells_);
  MergeOutcome outcome = merged();
  const std::string csv = csv_of(outcome.table);
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
  options.progress = [](std::int64_t, std::int64_t, std::string_view) { throw Cancelled("interrupted"); };
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
  const test::ScratchFolder scratch;
  StudyTable table(scratch.path());
  table.add_row();
  table.set("a", 0.1);
  table.add_row();
  table.set("b", std::string("x,y"));
  table.add_row();
  table.set("a", std::string("both"));
  table.set("c", std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(csv_of(table), "a,b,c\n0.1,,\n,\"x,y\",\nboth,,\n");
}

// More rows than are written at once; columns that come late, change their kind, or are wide.
// Not even for a moment: a kill would leave it.
TEST(StudyTable, ItsRowsNeverHaveAName) {
  const test::ScratchFolder scratch;
  const int probe = ::open(scratch.path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (probe < 0) GTEST_SKIP() << "this file system has no files without names";
  ::close(probe);
  const int changes = inotify_init1(IN_NONBLOCK);
  ASSERT_GE(inotify_add_watch(changes, scratch.path().c_str(), IN_CREATE), 0);
  {
    StudyTable table(scratch.path());
    for (int i = 0; i < 3; ++i) {
      table.add_row();
      table.set("i", static_cast<double>(i));
    }
    std::size_t n = 0;
    table.for_each_row([&](const StudyTable::Row&) { ++n; });
    EXPECT_EQ(n, 3U);
  }
  std::array<char, 4096> events{};
  EXPECT_LT(::read(changes, events.data(), events.size()), 0) << "a file had a name";
  ::close(changes);
  EXPECT_THROW(StudyTable(scratch.file("nowhere")), FileError);
}

TEST(StudyTable, IsInAFileWhatItIsAsText) {
  constexpr std::size_t kRows = 10000;
  const test::ScratchFolder scratch;
  StudyTable table(scratch.path());
  for (std::size_t i = 0; i < kRows; ++i) {
    table.add_row();
    table.set("number", static_cast<double>(i) / 3);
    table.set("text", std::string(i % 50, 'x'));
    if (i > 7000) table.set("late", static_cast<double>(i));
    if (i % 2 == 0) table.set("mixed", static_cast<double>(i));
    if (i == 9000) table.set("mixed", std::string("a"));
  }
  auto file = recording::hdf5::File::create(scratch.file("table.h5"));
  recording::hdf5::Group group = file.root();
  write_table(group, table, "number");
  const auto numbers = group.open_dataset("number").read<double>(),
             late = group.open_dataset("late").read<double>();
  const auto texts = group.read_texts("text"), mixed = group.read_texts("mixed");
  ASSERT_THAT(numbers, SizeIs(kRows));
  ASSERT_THAT(mixed, SizeIs(kRows));
  std::string csv = "number,text,mixed,late\n";
  for (std::size_t i = 0; i < kRows; ++i) {
    EXPECT_EQ(numbers[i], static_cast<double>(i) / 3);
    EXPECT_EQ(texts[i], std::string(i % 50, 'x'));
    EXPECT_EQ(mixed[i], i == 9000 ? "a" : i % 2 == 0 ? std::to_string(i) : "");
    EXPECT_EQ(std::isnan(late[i]), i <= 7000);
    csv += fmt::format("{},{},{},{}\n", numbers[i], texts[i], mixed[i], i > 7000 ? std::to_string(i) : "");
  }
  EXPECT_EQ(csv_of(table), csv);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1)
      << "rows wait in no visible file";
}

TEST(StudyTable, KeepsRowsWithoutValues) {
  const test::ScratchFolder scratch;
  StudyTable table(scratch.path()), none(scratch.path());
  table.add_row();
  table.add_row();
  table.set("a", 1.0);
  table.add_row();
  EXPECT_EQ(csv_of(table), "a\n\n1\n\n");
  EXPECT_EQ(csv_of(table), "a\n\n1\n\n") << "read a second time";
  none.add_row();
  none.for_each_row([](const StudyTable::Row& row) { EXPECT_TRUE(row.empty()); });
}

TEST(StudyTable, TakesNumbersTruthsAndTextsOfAnObject) {
  const test::ScratchFolder scratch;
  StudyTable table(scratch.path());
  table.add_row();
  table.set_members({{"n", 3}, {"yes", true}, {"text", "t"}, {"list", {1, 2}}, {"none", nullptr}});
  EXPECT_EQ(csv_of(table), "n,yes,text\n3,1,t\n");
}

}  // namespace
}  // namespace keyscope::sweep
