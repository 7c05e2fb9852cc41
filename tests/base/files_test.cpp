#include "base/files.hpp"

#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope {

namespace {

using ::testing::AllOf;
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
