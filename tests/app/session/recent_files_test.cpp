#include "app/session/recent_files.hpp"

#include <filesystem>
#include <fstream>
#include <semaphore>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_folder.hpp"

namespace keyscope::session {
namespace {

using test::ScratchFolder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string made(const ScratchFolder& folder, const std::string& name) {
  std::ofstream(folder.file(name)) << "x";
  return folder.file(name).string();
}

TEST(RecentFiles, TheLastOneComesFirstAndOnce) {
  const ScratchFolder folder;
  const auto list = folder.file("recent.json");
  const std::string a = made(folder, "a.h5"), b = made(folder, "b.h5");
  note_recent(list, a);
  note_recent(list, b);
  note_recent(list, folder.path().string() + "/./x/../a.h5");
  EXPECT_THAT(read_recent(list), ElementsAre(RecentFile{a, false}, RecentFile{b, false}));
}

TEST(RecentFiles, MissingOnesAreSaidAndGoFirst) {
  const ScratchFolder folder;
  const auto list = folder.file("recent.json");
  const std::string gone = folder.file("gone.h5").string();
  note_recent(list, gone);
  EXPECT_THAT(read_recent(list), ElementsAre(RecentFile{gone, true}));
  const std::string oldest = made(folder, "0.h5");
  note_recent(list, oldest);
  note_recent(list, gone);  // newer, but missing
  for (std::size_t i = 1; i < kMostRecent; ++i) note_recent(list, made(folder, fmt::format("{}.h5", i)));
  const auto files = read_recent(list);
  ASSERT_EQ(files.size(), kMostRecent);
  EXPECT_EQ(files.back(), (RecentFile{oldest, false}));
  note_recent(list, made(folder, "one more.h5"));
  EXPECT_EQ(read_recent(list).size(), kMostRecent);
  EXPECT_NE(read_recent(list).back().path, oldest);
}

TEST(RecentFiles, ForeignListsAreReadAsFarAsTheyMakeSense) {
  const ScratchFolder folder;
  const auto list = folder.file("recent.json");
  for (const char* text :
       {"{", "[]", R"({"recent": 7})", R"({"recent": {"a": "/b"}})", R"({"recent": [7, null]})"}) {
    std::ofstream(list, std::ios::trunc) << text;
    EXPECT_THAT(read_recent(list), IsEmpty()) << text;
  }
  std::ofstream(list, std::ios::trunc)
      << R"({"recent": ["relative.h5", "", ["/x"], "/none.h5", "/none.h5", "/a\u0000b"]})";
  EXPECT_THAT(read_recent(list), ElementsAre(RecentFile{"/none.h5", true}));
}

TEST(RecentList, KeepsWhatIsNotedOnAThreadOfItsOwn) {
  const ScratchFolder folder;
  const auto list = folder.file("recent.json");
  const std::string a = made(folder, "a.h5");
  std::counting_semaphore<> changed(0);
  RecentList recent(list, [&] { changed.release(); });
  changed.acquire();
  EXPECT_THAT(recent.files(), IsEmpty());
  recent.note(a);
  changed.acquire();
  EXPECT_THAT(recent.files(), ElementsAre(RecentFile{a, false}));
  std::filesystem::remove(a);
  recent.note(a);  // the same again
  recent.refresh();
  changed.acquire();
  EXPECT_THAT(recent.files(), ElementsAre(RecentFile{a, true}));
  EXPECT_FALSE(changed.try_acquire());
  EXPECT_THAT(read_recent(list), ElementsAre(RecentFile{a, true}));
}

TEST(RecentList, WithoutAFileNothingIsKept) {
  RecentList recent({}, [] { FAIL() << "there is nothing to change"; });
  recent.note("/a.h5");
  EXPECT_THAT(recent.files(), IsEmpty());
}

}  // namespace
}  // namespace keyscope::session
