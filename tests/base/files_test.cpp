#include "base/files.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
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
