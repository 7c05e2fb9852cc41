#include "base/files.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/errors.hpp"
#include "base/inputs.hpp"
#include "base/json.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope {

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextFile : public ::testing::Test {
 protected:
  std::filesystem::path written(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return path_;
  }
  static std::string refusal(const std::filesystem::path& path) {
    try {
      read_text_file(path);
    } catch (const FileError& error) {
      return error.what();
    }
    return "not refused";
  }

  test::ScratchFolder folder_;
  std::filesystem::path path_ = folder_.path() / "text.txt";
};

TEST_F(TextFile, IsReadAsItStands) {
  const std::string text("Café.\r\n\0Ü\xEF\xBB\xBF!", 15);
  EXPECT_EQ(read_text_file(written(text)), text);
  EXPECT_EQ(read_text_file(written("")), "");
}

TEST_F(TextFile, ItsByteOrderMarkIsNoText) {
  EXPECT_EQ(read_text_file(written("\xEF\xBB\xBFOne.")), "One.");
  EXPECT_EQ(read_text_file(written("\xEF\xBB\xBF")), "");
}

TEST_F(TextFile, WhatIsNoTextIsRefusedByName) {
  EXPECT_THAT(refusal(written("bad \xFF.")), HasSubstr("text.txt: is no UTF-8"));
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("found a folder"));
  EXPECT_THAT(refusal(folder_.path() / "none.txt"), HasSubstr("none.txt: cannot be read"));
}

std::string file_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const FileError& error) {
    return error.what();
  }
  return "not refused";
}

class Files : public TextFile {};

TEST_F(Files, AreReadWhole) {
  const std::string bytes("\xFF\0\n", 3);
  EXPECT_EQ(read_file(written(bytes)), bytes);
  EXPECT_EQ(read_file(path_, 2), bytes.substr(0, 2));
  EXPECT_THAT(file_error([&] { read_file(path_, 4); }), HasSubstr("could not be read to its end"));
  EXPECT_THAT(file_error([&] { read_file(folder_.path() / "none"); }), HasSubstr("none: cannot be read"));
}

// A file whose first bytes cannot be read, as on a failing disk, is no empty one.
TEST_F(Files, ThatCannotBeReadAreNamed) {
  const std::string failing = "/proc/self/mem";
  const std::vector<std::function<void(const std::string&)>> readers{
      [](const std::string& path) { read_file(path); }, [](const std::string& path) { read_text_file(path); },
      [](const std::string& path) { TextInput(path).read_all(); },
      [](const std::string& path) { read_small_file(path); }};
  for (const auto& read : readers)
    for (const std::string& path : {failing, folder_.path().string()}) try {
        read(path);
        FAIL() << path;
      } catch (const FileError& error) {
        EXPECT_THAT(error.what(), ::testing::StartsWith(path));
      }
}

TEST_F(Files, StandardInputThatFailsIsNoEmptyOne) {
  const int before = ::dup(STDIN_FILENO), folder = ::open(folder_.path().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(folder, 0);
  ::dup2(folder, STDIN_FILENO);
  std::string said = "read";
  try {
    TextInput("-").read_all();
  } catch (const FileError& error) {
    said = error.what();
  }
  ::dup2(before, STDIN_FILENO);
  ::close(before), ::close(folder);
  std::cin.clear();
  std::clearerr(stdin);
  EXPECT_EQ(said, "standard input: could not be read to its end");
}

TEST_F(Files, AreOpenedWithAWordOnWhatTheyShouldBe) {
  EXPECT_THAT(file_error([&] { open_file(folder_.path(), "a file of prompts"); }),
              HasSubstr("found a folder, expected a file of prompts"));
  EXPECT_NO_THROW(open_file(written("a"), "a text file"));
}

TEST_F(Files, AreSyncedWithTheirFolder) {
  EXPECT_NO_THROW(sync_path(written("a")));
  EXPECT_NO_THROW(sync_path(folder_.path()));
  EXPECT_THAT(file_error([&] { sync_path(folder_.path() / "none"); }), HasSubstr("none: cannot open: "));
}

TEST_F(Files, AppearWhenTheyAreCommitted) {
  {
    const AtomicFile dropped(path_, false);
    std::ofstream(dropped.part()) << "half";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  AtomicFile file(path_, false);
  std::ofstream(file.part()) << "whole";
  EXPECT_FALSE(std::filesystem::exists(path_));
  file.commit();
  EXPECT_EQ(read_file(path_), "whole");
  EXPECT_FALSE(std::filesystem::exists(file.part()));
  EXPECT_THAT(file_error([&] { AtomicFile(path_, false); }), HasSubstr("exists already"));
  EXPECT_NO_THROW(write_file(path_, "other", true));
  EXPECT_EQ(read_file(path_), "other");
}

// An input, by whatever name, and a name that leaves no room for what its part is called.
TEST_F(Files, ThatNeverCanBeWrittenAreRefusedBefore) {
  const std::filesystem::path source = written("a"), link = folder_.path() / "link";
  std::filesystem::create_hard_link(source, link);
  EXPECT_EQ(output_path(link, true), link);
  note_input(source);
  note_input(folder_.path());
  note_input("/no/such/file");
  for (const auto& path : {source, link})
    EXPECT_THAT([&] { output_path(path, true); }, testing::ThrowsMessage<UsageError>(HasSubstr("is read")));
  write_file(path_.string() + "2", "x", true);  // beside it
  std::filesystem::remove(source);
  EXPECT_EQ(output_path(link, true), link) << "what has gone is read no longer";
  const std::string name(200, 'n');
  EXPECT_NO_THROW(write_file(folder_.path() / name, "x", false));
  EXPECT_THAT(file_error([&] { output_path(folder_.path() / (name + "n"), false); }),
              HasSubstr("a name of 201 bytes, expected 200 at most"));
}

// Writes a part of a file in another process, which goes on, or has died by the time this returns.
class OtherWriter {
 public:
  OtherWriter(const std::filesystem::path& path, bool dies) {
    int ready[2];
    if (pipe(ready) != 0) throw std::runtime_error("no pipe");
    process_ = fork();
    if (process_ == 0) {
      const AtomicFile file(path, false);
      std::ofstream(file.part()) << "half";
      if (write(ready[1], "!", 1) == 1 && !dies) pause();
      _exit(0);
    }
    char byte = 0;
    if (read(ready[0], &byte, 1) != 1) throw std::runtime_error("the other process did not begin");
    if (dies) end();
    close(ready[0]);
    close(ready[1]);
  }
  ~OtherWriter() { end(); }
  OtherWriter(const OtherWriter&) = delete;
  OtherWriter& operator=(const OtherWriter&) = delete;

 private:
  void end() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  pid_t process_ = -1;
};

TEST_F(Files, WhatADeadProcessLeftIsClearedAndWhatALivingOneWritesIsNot) {
  const OtherWriter alive(folder_.path() / "alive.json", false), dead(folder_.path() / "dead.json", true);
  std::ofstream(folder_.path() / "mine.part") << "somebody's";
  for (const char* name : {"backup.2024-11-03.part", "archive.a-1-b.part", "b.0123456789ab-1-x.part"}) {
    std::ofstream(folder_.path() / name) << "somebody's, old";
    std::filesystem::last_write_time(folder_.path() / name,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(48));
  }
  std::ofstream(folder_.path() / "a.0123456789ab-1-1.part") << "another machine's, new";
  std::ofstream(folder_.path() / "b.0123456789ab-1-1.part") << "another machine's, old";
  std::ofstream(folder_.path() / "c.h5.0123456789ab-1-1.part.part") << "a part of that, old";
  for (const char* name : {"b.0123456789ab-1-1.part", "c.h5.0123456789ab-1-1.part.part"})
    std::filesystem::last_write_time(folder_.path() / name,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(25));
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      found.push_back(entry.path().filename().string());
    return found;
  };
  ASSERT_EQ(names().size(), 9U);
  write_file(folder_.path() / "new.json", "{}", false);
  EXPECT_THAT(names(), ::testing::UnorderedElementsAre("new.json", "mine.part", "a.0123456789ab-1-1.part",
                                                       "backup.2024-11-03.part", "archive.a-1-b.part",
                                                       "b.0123456789ab-1-x.part",
                                                       ::testing::StartsWith("alive.json.")));
}

TEST_F(Files, APipeIsNotWaitedForToBeMapped) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(file_error([&] { MappedFile file(path_); }), HasSubstr("is no regular file"));
}

TEST_F(Files, AMappedOneThatIsCutIsASentence) {
  write_file(path_, std::string(1 << 16, 'a'), false);
  EXPECT_EXIT(
      {
        const MappedFile mapped(path_);
        std::filesystem::resize_file(path_, 10);
        const volatile std::byte last = mapped.bytes().back();
        std::_Exit(static_cast<int>(last));
      },
      ::testing::ExitedWithCode(1), "has been cut, or its disk has failed");
  // What is no file of theirs ends as ever.
  EXPECT_EXIT(
      {
        write_file(path_, "whole", true);
        const MappedFile mapped(path_);
        std::raise(SIGBUS);
        std::_Exit(0);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST(SuggestedPaths, BeginWithWhatWasTyped) {
  const test::ScratchFolder folder;
  std::filesystem::create_directory(folder.file("notes"));
  std::filesystem::create_directory(folder.file(".hidden"));
  write_file(folder.file("needle.txt"), "a", false);
  const std::string at = folder.path().string() + "/";
  EXPECT_THAT(suggested_paths(at, false), ElementsAre(at + "needle.txt", at + "notes/"));
  EXPECT_THAT(suggested_paths(at + "n", true), ElementsAre(at + "notes/"));
  EXPECT_THAT(suggested_paths(at + "ne", false), ElementsAre(at + "needle.txt"));
  EXPECT_THAT(suggested_paths(at + ".h", true), ElementsAre(at + ".hidden/"));
  EXPECT_TRUE(suggested_paths(at + "needle.txt", false).empty()) << "it names a file";
  EXPECT_TRUE(suggested_paths("", false).empty());
  EXPECT_TRUE(suggested_paths(at + "nowhere/x", false).empty());
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Utf8Option, NamesTheOption) {
  EXPECT_NO_THROW(check_utf8("caf\u00e9.txt", "--text"));
  EXPECT_NO_THROW(check_utf8("", "--text"));
  EXPECT_THAT(refusal([] { check_utf8("caf\xE9.txt", "--text"); }),
              AllOf(HasSubstr("--text: caf\uFFFD.txt is no UTF-8"), HasSubstr("JSON")));
}

}  // namespace

}  // namespace keyscope
