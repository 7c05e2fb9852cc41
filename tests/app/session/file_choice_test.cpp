// What a folder offers to open, and the desktop's dialog, for which a script stands in.

#include "app/session/file_choice.hpp"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/session/settled_session.hpp"
#include "tests/support/blocked_signals.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::session {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

std::vector<std::string> names_of(const std::vector<FolderEntry>& entries) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : entries) names.push_back(entry.name);
  return names;
}

class FolderListTest : public ::testing::Test {
 protected:
  FolderListTest() {
    fs::create_directories(folder_.file("Papers/old"));
    for (const char* name : {"b.h5", "a.nxs", "half.h5.part", "notes.txt", ".hidden.h5"})
      std::ofstream(folder_.file(name)) << "1234";
  }
  test::ScratchFolder folder_;
};

TEST_F(FolderListTest, NamesWhatCanBeOpenedAndWhereToGo) {
  const FolderList list = list_folder(folder_.path());
  EXPECT_THAT(names_of(list.entries), ElementsAre("../", "a.nxs", "b.h5", "half.h5.part", "Papers/"));
  EXPECT_EQ(list.entries[2].bytes, 4);
  EXPECT_THAT(list.entries[2].changed, HasSubstr("20"));
  EXPECT_EQ(list.error, "");
  EXPECT_THAT(list_folder(folder_.file("nowhere")).error, HasSubstr("nowhere"));
  EXPECT_THAT(names_of(list_folder("/").entries), ::testing::Not(Contains("../")));
}

TEST_F(FolderListTest, IsFilteredByWhatIsTyped) {
  const FolderList list = list_folder(folder_.path());
  EXPECT_THAT(names_of(entries_with(list, "H5")), ElementsAre("b.h5", "half.h5.part"));
  EXPECT_THAT(names_of(entries_with(list, "pap")), ElementsAre("Papers/"));
  EXPECT_THAT(entries_with(list, "zzz"), IsEmpty());
}

TEST_F(FolderListTest, APathLeadsIntoItsFolder) {
  const TypedPath below = read_typed_path(folder_.path(), "Papers/ol");
  EXPECT_EQ(below.folder, folder_.file("Papers/"));
  EXPECT_EQ(below.part, "ol");
  EXPECT_EQ(read_typed_path(folder_.path(), "/usr/").folder, "/usr/");
  EXPECT_EQ(read_typed_path(folder_.path(), "no/such").folder, folder_.path());
  EXPECT_EQ(read_typed_path(folder_.path(), "no/such").part, "no/such");
  EXPECT_EQ(read_typed_path(folder_.file("Papers"), "../b").folder, folder_.file(""));
}

// A desktop whose zenity is this script.
class DesktopDialogTest : public ::testing::Test {
 protected:
  void be(const std::string& script) {
    const fs::path program = folder_.file("zenity");
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(program, fs::perms::owner_all);
    ::setenv("PATH", (folder_.path().string() + ":/usr/bin:/bin").c_str(), 1);
    ::setenv("XDG_CURRENT_DESKTOP", "GNOME", 1);
    ::unsetenv("DBUS_SESSION_BUS_ADDRESS");  // so that there is no portal
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("XDG_CURRENT_DESKTOP");
  }
  std::optional<std::string> answer(DesktopDialog& dialog) {
    for (int i = 0; i < 4000 && dialog.is_open(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return dialog.take();
  }

  test::ScratchFolder folder_;
  std::string path_ = std::getenv("PATH");
  std::atomic<int> woken_ = 0;
};

TEST_F(DesktopDialogTest, AnswersWithWhatWasChosen) {
  be("echo \"$@\" > '" + folder_.file("asked").string() + "'; echo '/tmp/it is a file.h5'");
  DesktopDialog dialog([&] { ++woken_; });
  ASSERT_TRUE(dialog.ask({DesktopDialog::Kind::kOpen, "Open", "/tmp/", {"*.h5", "*.nxs"}}));
  EXPECT_EQ(answer(dialog), "/tmp/it is a file.h5");
  EXPECT_EQ(dialog.take(), std::nullopt) << "once";
  std::string asked;
  std::getline(std::ifstream(folder_.file("asked")) >> std::ws, asked);
  EXPECT_EQ(asked, "--file-selection --title=Open --filename=/tmp/ --file-filter=*.h5 *.nxs --file-filter=*");
}

TEST_F(DesktopDialogTest, SaysNothingWhenItIsClosed) {
  be("echo /tmp/almost; exit 1");
  DesktopDialog dialog([&] { ++woken_; });
  ASSERT_TRUE(dialog.ask({}));
  EXPECT_EQ(answer(dialog), std::nullopt);
  be("exit 0");
  ASSERT_TRUE(dialog.ask({})) << "and may be asked again";
  EXPECT_EQ(answer(dialog), std::nullopt);
}

TEST_F(DesktopDialogTest, IsClosedWithTheWindow) {
  const test::BlockedSignals as_in_main;
  be("exec sleep 60");
  const auto started = std::chrono::steady_clock::now();
  {
    DesktopDialog dialog([&] { ++woken_; });
    ASSERT_TRUE(dialog.ask({}));
    EXPECT_TRUE(dialog.is_open());
    EXPECT_TRUE(dialog.ask({})) << "the one that is open is meant";
  }
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(30));
}

TEST_F(DesktopDialogTest, IsOnlyThereWhereADesktopIs) {
  be("exit 0");
  EXPECT_EQ(DesktopDialog::program(), "zenity");
  ::setenv("XDG_CURRENT_DESKTOP", "KDE", 1);
  EXPECT_EQ(DesktopDialog::program(), "zenity") << "where there is no kdialog";
  ::unsetenv("XDG_CURRENT_DESKTOP");
  EXPECT_EQ(DesktopDialog::program(), "");
  DesktopDialog dialog([] {});
  EXPECT_FALSE(dialog.ask({}));
  EXPECT_THAT(
      DesktopDialog::command("portal", {DesktopDialog::Kind::kOpen, "Open", "/tmp/", {"*.h5", "*.nxs"}}),
      ElementsAre("/proc/self/exe", "choose-file", "--kind", "open", "--title", "Open", "--at", "/tmp/",
                  "--pattern", "*.h5", "--pattern", "*.nxs"));
  EXPECT_THAT(DesktopDialog::command("kdialog", {DesktopDialog::Kind::kSave, "Save", "/tmp/a.h5", {"*.h5"}}),
              ElementsAre("kdialog", "--title", "Save", "--getsavefilename", "/tmp/a.h5", "*.h5"));
}

}  // namespace
}  // namespace keyscope::session
