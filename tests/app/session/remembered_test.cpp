#include "app/session/remembered.hpp"

#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "tests/app/session/settled_session.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::session {

namespace {

using test::ScratchFolder;
using ::testing::IsEmpty;

const RememberedView kSeen{{"sink", 2, 1, 3},
                           "attention",
                           "spearman",
                           {figures::Projection::kPca3d, figures::KeyColour::kScore, true},
                           {true, false, true, figures::MatrixOrder::kDendrogram, figures::Reduction::kMin}};

// The only file in the folder.
std::filesystem::path only_file(const ScratchFolder& folder) {
  return std::filesystem::directory_iterator(folder.path())->path();
}

TEST(RememberedView, ComesBackForTheSameRecordingOnly) {
  const ScratchFolder folder;
  remember_view(folder.path(), "/runs/a.h5", kSeen);
  EXPECT_EQ(recall_view(folder.path(), "/runs/a.h5"), kSeen);
  EXPECT_EQ(recall_view(folder.path(), "/runs/./b/../a.h5"), kSeen);
  EXPECT_FALSE(recall_view(folder.path(), "/runs/b.h5"));
  std::filesystem::remove(only_file(folder));
  EXPECT_FALSE(recall_view(folder.path(), "/runs/a.h5"));
}

TEST(RememberedView, WithoutAFolderNothingIsKept) {
  remember_view({}, "/runs/a.h5", kSeen);
  EXPECT_FALSE(recall_view({}, "/runs/a.h5"));
}

TEST(RememberedView, HostileFilesAreReadAsFarAsTheyMakeSense) {
  const ScratchFolder folder;
  remember_view(folder.path(), "/a.h5", kSeen);
  const auto file = only_file(folder);
  for (const char* text :
       {"", "[]", "{", R"({"recording": ["/a.h5"]})", R"({"recording": "/b.h5", "layer": 1})"}) {
    std::ofstream(file, std::ios::trunc) << text;
    EXPECT_FALSE(recall_view(folder.path(), "/a.h5")) << text;
  }
  std::ofstream(file, std::ios::trunc)
      << R"({"recording": "/a.h5", "run": {}, "layer": -1, "kv_head": 1e300, "block": 99999999999999999999,
             "view": null, "measure": ["spearman"], "look": {"projection": "cube", "colour": 3, "queries": "yes"},
             "settings": {"ranks": 1, "order": "time", "reduce": "median"}})";
  EXPECT_EQ(recall_view(folder.path(), "/a.h5"), RememberedView());
}

TEST(RememberedView, OfARecordingThatChangedWhatIsStillThereIsSelected) {
  const auto info = small_recording()->info();
  EXPECT_EQ(remembered_selection(*info, kSeen), (Selection{2, 2, 1, 3}));
  EXPECT_EQ(remembered_selection(*info, {{"gone", 99, 99, 3}, "", ""}), (Selection{1, 3, 3, 4}));
  EXPECT_EQ(remembered_selection(*info, {{"none", 0, 0, 1'000'000}, "", ""}), (Selection{0, 0, 0, 4}));
}

TEST(RememberedView, RunsBesideAreThoseThatAreStillThere) {
  const ScratchFolder folder;
  RememberedView seen = kSeen;
  seen.selection.beside = {"keydiff", "gone", "sink", "none", "none"};
  remember_view(folder.path(), "/runs/a.h5", seen);
  const auto recalled = recall_view(folder.path(), "/runs/a.h5");
  ASSERT_TRUE(recalled);
  EXPECT_EQ(*recalled, seen);
  const auto info = small_recording()->info();
  EXPECT_EQ(remembered_beside(*info, 2, *recalled), (std::vector<RunId>{{0, 0}, {0, 1}}))
      << "sink is the selected one";
}

TEST(RememberedView, TheOldestAreForgotten) {
  const ScratchFolder folder;
  for (std::size_t i = 0; i < kMostViews + 3; ++i)
    remember_view(folder.path(), fmt::format("/{}.h5", i), kSeen);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}),
            std::ptrdiff_t{kMostViews});
  EXPECT_TRUE(recall_view(folder.path(), fmt::format("/{}.h5", kMostViews + 2)));
}

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
  for (const std::string& text : {std::string(), std::string("{"), std::string("[1, 2]"), std::string("null"),
                                  std::string("\0\xff\xfe", 3), std::string(100'000, '['),
                                  fmt::format(R"({{"a":{})", std::string(100'000, '{')), std::string("{} {}"),
                                  fmt::format(R"({{"a": "{}"}})", std::string(kMostSettingsBytes, 'x'))}) {
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
