#include "base/outputs_together.hpp"

#include <cerrno>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

// What calls of these fail with, one after another; 0, and after the last: they do not.
std::deque<int> rename_errors, unlink_errors, fsync_errors;
std::vector<std::string> synced;  // names of files and folders
std::function<void()> at_sync = [] {};

bool fails(std::deque<int>& errors) {
  if (errors.empty()) return false;
  errno = errors.front();
  errors.pop_front();
  return errno != 0;
}

}  // namespace

// In the place of the system's, for the whole test.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned flags) noexcept {
  if (fails(rename_errors)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}
extern "C" int unlink(const char* path) noexcept {
  if (fails(unlink_errors)) return -1;
  return static_cast<int>(syscall(SYS_unlink, path));
}
extern "C" int fsync(int descriptor) {
  std::error_code ignored;
  synced.push_back(
      std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), ignored).filename());
  at_sync();
  if (fails(fsync_errors)) return -1;
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

namespace keyscope {

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// While it lives, nothing can be opened: neither can a folder, to be synced.
class NothingOpens {
 public:
  NothingOpens() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NothingOpens() { setrlimit(RLIMIT_NOFILE, &before_); }
  NothingOpens(const NothingOpens&) = delete;
  NothingOpens& operator=(const NothingOpens&) = delete;

 private:
  rlimit before_{};
};

class Outputs : public ::testing::Test {
 protected:
  fs::path file(const std::string& name) const { return folder_.path() / name; }
  void put(const std::string& name, const std::string& text) const { std::ofstream(file(name)) << text; }

  NewFile part_of(const std::string& name, bool replace, bool keeps_part = false) const {
    put(name + ".part", "new " + name);
    return {file(name + ".part"), file(name), replace, keeps_part};
  }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      found.push_back(entry.path().filename().string());
    return found;
  }

  static std::string refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const FileError& error) {
      return error.what();
    }
    return "not refused";
  }

  test::ScratchFolder folder_;
};

TEST_F(Outputs, GetTheirNamesAndLeaveNothingBeside) {
  put("a", "old");
  std::vector<NewFile> files{part_of("a", true), part_of("b", false)};
  give_names(files);
  EXPECT_THAT(names(), UnorderedElementsAre("a", "b"));
  EXPECT_EQ(read_file(file("a")), "new a");
  EXPECT_EQ(read_file(file("b")), "new b");
}

TEST_F(Outputs, AreTakenBackWhereOneCannotGetItsName) {
  put("a", "old");
  put("c", "not to be replaced");
  std::vector<NewFile> files{part_of("a", true), part_of("b", false), part_of("c", false)};
  EXPECT_THAT(refusal([&] { give_names(files); }), AllOf(HasSubstr("/c: "), HasSubstr("left as it is")));
  EXPECT_EQ(read_file(file("a")), "old");
  EXPECT_FALSE(fs::exists(file("b")));
  EXPECT_EQ(read_file(file("c")), "not to be replaced");
  for (const char* name : {"a", "b", "c"})
    EXPECT_EQ(read_file(file(std::string(name) + ".part")), std::string("new ") + name);
}

TEST_F(Outputs, AreTakenBackWhereTheFolderCannotBeSynced) {
  put("a", "old");
  std::vector<NewFile> files{part_of("a", true), part_of("b", false, true)};
  std::string said;
  {
    const NothingOpens disk;
    said = refusal([&] { give_names(files); });
  }
  EXPECT_THAT(said, HasSubstr(folder_.path().string()));
  EXPECT_EQ(read_file(file("a")), "old");
  EXPECT_FALSE(fs::exists(file("b")));
  EXPECT_EQ(read_file(file("b.part")), "new b");
}

TEST_F(Outputs, OfOneCommandAppearTogether) {
  put("a", "old");
  OutputsTogether outputs;
  write_file(file("a"), "new", true);
  write_file(file("b"), "new", false);
  EXPECT_EQ(read_file(file("a")), "old");
  EXPECT_FALSE(fs::exists(file("b")));
  outputs.commit();
  EXPECT_THAT(names(), UnorderedElementsAre("a", "b"));
  EXPECT_EQ(read_file(file("a")), "new");
}

TEST_F(Outputs, AreGoneWhereTheCommandFails) {
  put("a", "old");
  try {
    const OutputsTogether outputs;
    write_file(file("a"), "new", true);
    NewFile kept = part_of("kept", false, true);
    complete_file(kept);
    throw FileError("the next one cannot be written");
  } catch (const FileError&) {  // NOLINT(bugprone-empty-catch): what is left is looked at
  }
  EXPECT_THAT(names(), UnorderedElementsAre("a", "kept.part"));
  EXPECT_EQ(read_file(file("a")), "old");
}

TEST_F(Outputs, WithinOthersDoNotWaitForThem) {
  OutputsTogether outer;
  write_file(file("a"), "a", false);
  {
    OutputsTogether inner;
    write_file(file("b"), "b", false);
    inner.commit();
  }
  EXPECT_FALSE(fs::exists(file("a")));
  EXPECT_TRUE(fs::exists(file("b")));
  outer.commit();
  EXPECT_TRUE(fs::exists(file("a")));
}

TEST_F(Outputs, WithinOthersMayBeLeftToThem) {
  OutputsTogether outer;
  const auto leave = [&](const char* name) {
    OutputsTogether inner;
    write_file(file(name), name, false);
    inner.leave_to_outer();
  };
  leave("a");
  EXPECT_EQ(read_file(outer.part_of(file("a"))), "a");
  leave("b");
  EXPECT_FALSE(fs::exists(file("a")));
  outer.commit();
  EXPECT_THAT(names(), UnorderedElementsAre("a", "b"));
  leave("c");
  EXPECT_THAT(refusal([&] { leave("c"); }), HasSubstr("is written twice"));
}

TEST_F(Outputs, LeftToNoOthersGetTheirNames) {
  OutputsTogether outputs;
  write_file(file("a"), "a", false);
  outputs.leave_to_outer();
  EXPECT_EQ(read_file(file("a")), "a");
}

TEST_F(Outputs, OfOneNameAreRefused) {
  fs::create_directory(file("d"));
  fs::create_directory_symlink("d", file("link"));
  put("d/a", "old");
  for (const char* again : {"d/a", "d/../d/a", "link/a"}) {
    OutputsTogether outputs;
    write_file(file("d/a"), "one", true);
    EXPECT_THAT(refusal([&] { write_file(file(again), "other", true); }), HasSubstr("is written twice"))
        << again;
  }
  {
    OutputsTogether outputs;
    NewFile recording = part_of("r", true, true);
    complete_file(recording);
    EXPECT_THAT(refusal([&] { write_file(file("r.part"), "other", true); }),
                AllOf(HasSubstr("r.part"), HasSubstr("is written twice")));
  }
  EXPECT_EQ(read_file(file("d/a")), "old");
  EXPECT_EQ(read_file(file("r.part")), "new r");
}

// A power cut between two of these leaves what is pointed to.
TEST_F(Outputs, AreOnTheDiskInTheOrderOfTheirFolders) {
  for (const char* name : {"z", "a"}) fs::create_directory(file(name));
  std::vector<NewFile> files{part_of("a/1", false), part_of("z/1", false), part_of("a/2", false)};
  synced.clear();
  give_names(files);
  EXPECT_THAT(synced, testing::ElementsAre("z", "a"));
}

// The older file has the part's name until the new one's is on the disk.
TEST_F(Outputs, ALockedPartIsNobodyElsesUntilItIsGone) {
  const auto is_locked = [&](const char* name) {
    return try_lock(Descriptor(file(name), O_RDWR).id()) == FileLock::kBusy;
  };
  put("a", "old");
  std::vector<NewFile> files{part_of("a", true)};
  files[0].lock = std::make_shared<Descriptor>(files[0].part, O_RDWR);
  ASSERT_EQ(try_lock(files[0].lock->id()), FileLock::kHeld);
  int n_seen = 0;
  at_sync = [&] {
    ++n_seen;
    EXPECT_EQ(read_file(file("a.part")), "old");
    EXPECT_TRUE(is_locked("a.part"));
    EXPECT_FALSE(is_locked("a")) << "it has its name";
  };
  give_names(files);
  at_sync = [] {};
  EXPECT_EQ(n_seen, 1);
  EXPECT_THAT(names(), UnorderedElementsAre("a"));
}

TEST_F(Outputs, APartThatIsTakenBackIsLockedAgain) {
  for (const bool replace : {false, true}) {
    if (replace) put("a", "old");
    std::vector<NewFile> files{part_of("a", replace), part_of("taken", false)};
    put("taken", "precious");
    files[0].lock = std::make_shared<Descriptor>(files[0].part, O_RDWR);
    ASSERT_EQ(try_lock(files[0].lock->id()), FileLock::kHeld);
    EXPECT_THAT(refusal([&] { give_names(files); }), HasSubstr("left as it is"));
    EXPECT_EQ(read_file(file("a.part")), "new a");
    EXPECT_EQ(try_lock(Descriptor(file("a.part"), O_RDWR).id()), FileLock::kBusy);
  }
}

// Where there was no lock to be had of the older file, say.
TEST_F(Outputs, APartThatIsAnothersByThenIsLeft) {
  put("a", "old");
  std::vector<NewFile> files{part_of("a", true)};
  files[0].lock = std::make_shared<Descriptor>(files[0].part, O_RDWR);
  at_sync = [&] {
    fs::remove(file("a.part"));
    put("a.part", "another's");
  };
  give_names(files);
  at_sync = [] {};
  EXPECT_EQ(read_file(file("a")), "new a");
  EXPECT_EQ(read_file(file("a.part")), "another's");
}

class OldFileSystem : public Outputs {
 protected:
  ~OldFileSystem() override {
    for (auto* errors : {&rename_errors, &unlink_errors, &fsync_errors}) errors->clear();
  }
};

// NFS has neither flag, a kernel before 3.15 has no such call.
TEST_F(OldFileSystem, HasLinksForWhatIsNewAndRenamesForTheRest) {
  for (const int error : {EINVAL, ENOSYS}) {
    put("a", "old");
    std::vector<NewFile> files{part_of("a", true), part_of(fmt::format("b{}", error), false)};
    rename_errors = {error, error, error};  // a: without replacing, in exchange; b: without replacing
    give_names(files);
    EXPECT_EQ(read_file(file("a")), "new a");
  }
  EXPECT_THAT(names(), UnorderedElementsAre("a", fmt::format("b{}", EINVAL), fmt::format("b{}", ENOSYS)));
}

TEST_F(OldFileSystem, NeverReplacesWhatMayNotBe) {
  put("a", "old");
  std::vector<NewFile> files{part_of("a", false)};
  rename_errors = {EINVAL};
  EXPECT_THAT(refusal([&] { give_names(files); }), HasSubstr("left as it is"));
  EXPECT_EQ(read_file(file("a")), "old");
}

TEST_F(OldFileSystem, AFileHasOneNameWhereTheOtherCannotBeTakenAway) {
  std::vector<NewFile> files{part_of("a", false)};
  rename_errors = {EINVAL};
  unlink_errors = {EPERM};
  EXPECT_THAT(refusal([&] { give_names(files); }),
              AllOf(HasSubstr("/a: cannot get its name"), HasSubstr("not permitted")));
  EXPECT_THAT(names(), UnorderedElementsAre("a.part"));
}

// The older file is then in the part, and nowhere else.
TEST_F(OldFileSystem, WhatCannotBeTakenBackIsKeptAndNamed) {
  for (const bool in_together : {false, true}) {
    put("a", "old");
    synced.clear();
    rename_errors = {0, 0, EIO};  // without replacing, which finds it; in exchange; back again
    fsync_errors = {0, EIO};      // the part; the folder
    std::string part;
    const std::string said = refusal([&] {
      if (!in_together) return write_file(file("a"), "new", true);
      OutputsTogether outputs;
      write_file(file("a"), "new", true);
      outputs.commit();
    });
    EXPECT_EQ(read_file(file("a")), "new");
    for (const std::string& name : names())
      if (name != "a") part = name;
    ASSERT_NE(part, "") << said;
    EXPECT_EQ(read_file(file(part)), "old");
    EXPECT_THAT(said, HasSubstr("what it replaced is in " + file(part).string()));
    fs::remove(file(part));
  }
}

}  // namespace

}  // namespace keyscope
