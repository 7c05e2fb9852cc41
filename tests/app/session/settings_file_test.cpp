#include "app/session/settings_file.hpp"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "tests/scratch_folder.hpp"

namespace keyscope::session {
namespace {

using test::ScratchFolder;

TEST(SettingsFile, ComesBackAsItWasWritten) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a" / "b" / "window.json";
  EXPECT_TRUE(read_settings(path).empty());
  write_settings(path, {{"light", true}, {"name", "größe \xff"}});  // a name that is no UTF-8
  EXPECT_EQ(read_settings(path).at("light"), true);
  write_settings(path, {{"light", false}});
  EXPECT_EQ(read_settings(path), (nlohmann::json{{"light", false}}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path.parent_path()), {}), 1)
      << "a part is left";
}

TEST(SettingsFile, WhatIsNoSettingsFileIsEmpty) {
  const ScratchFolder folder;
  const auto path = folder.file("window.json");
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1, 2]"), std::string("null"),
        std::string("\0\xff\xfe", 3), std::string(100'000, '['), "{\"a\":" + std::string(100'000, '{'),
        std::string("{} {}"), "{\"a\": \"" + std::string(kMostSettingsBytes, 'x') + "\"}"}) {
    std::ofstream(path, std::ios::trunc | std::ios::binary) << text;
    EXPECT_TRUE(read_settings(path).is_object());
    EXPECT_TRUE(read_settings(path).empty()) << text.substr(0, 40);
  }
  EXPECT_TRUE(read_settings(folder.path()).empty()) << "a folder";
}

TEST(SettingsFile, APipeDoesNotHoldAnyoneUp) {
  const ScratchFolder folder;
  ASSERT_EQ(mkfifo(folder.file("window.json").c_str(), 0600), 0);
  EXPECT_TRUE(read_settings(folder.file("window.json")).empty());
}

TEST(SettingsFile, WhereNothingCanBeWrittenNothingHappens) {
  const ScratchFolder folder;
  std::ofstream(folder.file("file")) << "not a folder";
  write_settings(folder.file("file") / "window.json", {{"light", true}});
  EXPECT_TRUE(read_settings(folder.file("file") / "window.json").empty());
}

TEST(SettingsFile, LiesInTheUsersConfiguration) {
  // NOLINTBEGIN(concurrency-mt-unsafe): tests are single-threaded
  setenv("XDG_CONFIG_HOME", "/somewhere", 1);
  EXPECT_EQ(settings_folder(), "/somewhere/keyscope");
  setenv("HOME", "/home/someone", 1);
  setenv("XDG_CONFIG_HOME", "relative", 1);
  EXPECT_EQ(settings_folder(), "/home/someone/.config/keyscope");
  unsetenv("XDG_CONFIG_HOME");
  unsetenv("HOME");
  EXPECT_TRUE(settings_folder().empty());
  // NOLINTEND(concurrency-mt-unsafe)
}

}  // namespace
}  // namespace keyscope::session
