// What the window copies is understood by the command line and asks for the same; what it remembers comes
// back.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/session/export_view.hpp"
#include "base/files.hpp"
#include "tests/app/session/settled_session.hpp"
#include "tests/support/cli.hpp"

namespace keyscope::test {
namespace {

using ::testing::HasSubstr;

// The words behind `keyscope`, as a shell splits them.
std::vector<std::string> words_of(const std::string& command, const ScratchFolder& folder) {
  const std::string list = folder.file("words").string();
  const std::string script = "printf '%s\\n' " + command + " >'" + list + "'";
  EXPECT_EQ(std::system(script.c_str()), 0);  // NOLINT(concurrency-mt-unsafe): tests are single-threaded
  std::vector<std::string> words;
  std::ifstream file(list);
  for (std::string line; std::getline(file, line);) words.push_back(line);
  words.erase(words.begin());
  return words;
}

// A small recording whose name a shell would take apart.
std::string recording_in(const ScratchFolder& folder) {
  std::string path = folder.file("it's a $HOME run.h5").string();
  const CliResult made =
      run_cli({"capture", "--quiet", "--model", kDemoModel, "--prompt", "The magic number is 7.", "--policy",
               "none", "--policy", "keydiff", "--budget", "4", "--block", "2", "--out", path});
  EXPECT_EQ(made.status, 0) << made.err;
  return path;
}

TEST(ViewCommand, AFigureIsDrawnAgainAsTheWindowExportsIt) {
  const ScratchFolder folder;
  session::Session session({});
  session.open(recording_in(folder), {.run = "keydiff", .layer = 2, .kv_head = 1, .block = 3});
  ASSERT_TRUE(session::settle(session));
  ASSERT_TRUE(session.state().loaded()) << session.state().open_error;
  for (const char* name : {"cosine-matrix", "attention", "log-volume"}) {
    session.choose_view(name);
    ASSERT_TRUE(session::settle(session));
    const std::string ours = folder.file(std::string(name) + "-window.png").string();
    session.export_view(ours);
    ASSERT_TRUE(session::settle(session));
    std::vector<std::string> words = words_of(session::view_command(session.state()), folder);
    EXPECT_EQ(words.back(), std::string(name) + ".svg");
    // As pixels: cairo numbers what an SVG defines over all that a process draws.
    words.back() = std::string(name) + ".png";
    const CliResult drawn = run_cli(words, "", folder.path());
    EXPECT_EQ(drawn.status, 0) << drawn.err;
    EXPECT_EQ(read_file(ours), read_file(folder.file(std::string(name) + ".png"))) << name;
    EXPECT_FALSE(read_file(ours).empty()) << name;
  }
}

TEST(ViewCommand, TheWindowTakesItsOwnCommand) {
  const ScratchFolder folder;
  session::Session session({});
  session.open(recording_in(folder), {.run = "keydiff", .layer = 2, .kv_head = 1, .block = 3});
  ASSERT_TRUE(session::settle(session));
  for (const char* view : {"keyspace", "text"}) {
    session.choose_view(view);
    const CliResult opened = run_cli(words_of(session::view_command(session.state()), folder));
    EXPECT_EQ(opened.status, 1) << opened.err;  // all options were understood; then there was no display
    EXPECT_THAT(opened.err, HasSubstr("no display"));
  }
}

TEST(ViewCommand, TheWindowTakesItsOwnCommandOfRunsSideBySide) {
  const ScratchFolder folder;
  session::Session session({});
  session.open(recording_in(folder), {.run = "keydiff", .beside = {"none"}});
  ASSERT_TRUE(session::settle(session));
  session.set_figure_settings({.ranks = true,
                               .linear = true,
                               .retained_only = true,
                               .order = figures::MatrixOrder::kDendrogram,
                               .reduction = figures::Reduction::kMin});
  for (const char* view : {"cosine-matrix", "attention", "score-attention"}) {
    session.choose_view(view);
    ASSERT_TRUE(session.state().comparing(session.state().view));
    const std::vector<std::string> words = words_of(session::view_command(session.state()), folder);
    const CliResult opened = run_cli(words);
    EXPECT_EQ(opened.status, 1) << opened.err;
    EXPECT_THAT(opened.err, HasSubstr("no display"));
  }
  const CliResult refused = run_cli({"view", folder.file("a.h5").string(), "--order", "alphabetical"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("alphabetical"));
}

TEST(RememberedView, WhatTheCommandLineAskedForStays) {
  const ScratchFolder folder;
  const std::string path = recording_in(folder);
  session::Session session({});
  session.remember_in(folder.file("views"));
  session.open(path);
  ASSERT_TRUE(session::settle(session));
  session.set_figure_settings({.ranks = true});
  session.remember();
  session.set_figure_settings({.linear = true});
  session.open(path, {}, {.settings = true});
  ASSERT_TRUE(session::settle(session));
  EXPECT_EQ(session.state().figure_settings, session::FigureSettings{.linear = true});
}

TEST(RememberedView, ARecordingOpensAsItWasLeftUnlessToldOtherwise) {
  const figures::KeyspaceLook kLook{figures::Projection::kAnchor, figures::KeyColour::kScore, false};
  const session::FigureSettings kSettings{.retained_only = true, .order = figures::MatrixOrder::kDendrogram};
  const ScratchFolder folder;
  const std::string path = recording_in(folder);
  const std::filesystem::path memory = folder.file("views");
  {
    session::Session session({});
    session.remember_in(memory);
    session.open(path, {.run = "keydiff", .layer = 2, .kv_head = 1, .block = 3});
    ASSERT_TRUE(session::settle(session));
    session.choose_view("cosine-matrix");
    session.choose_measure(3);
    session.choose_look(kLook);
    session.set_figure_settings(kSettings);
    session.remember();
  }
  session::Session session({});
  session.remember_in(memory);
  session.open(path);
  ASSERT_TRUE(session::settle(session));
  EXPECT_EQ(session.state().selection, (session::Selection{1, 2, 1, 3}));
  EXPECT_EQ(session.state().view, "cosine-matrix");
  EXPECT_EQ(session.state().measure, 3U);
  EXPECT_EQ(session.state().look, kLook);
  EXPECT_EQ(session.state().figure_settings, kSettings);
  session.choose_view("text");
  session.choose_look({});
  session.open(path, {.layer = 1}, {.view = true, .look = true});
  ASSERT_TRUE(session::settle(session));
  EXPECT_EQ(session.state().selection.layer, 1);
  EXPECT_EQ(session.state().selection.kv_head, 0);
  EXPECT_EQ(session.state().view, "text");
  EXPECT_EQ(session.state().look, figures::KeyspaceLook());
  session.open(path);  // as it was when it was closed, a moment ago
  ASSERT_TRUE(session::settle(session));
  EXPECT_EQ(session.state().selection.layer, 1);
}

TEST(RememberedView, WithoutAFolderNothingIsWritten) {
  const ScratchFolder folder;
  const std::string path = recording_in(folder);
  session::Session session({});
  session.open(path);
  ASSERT_TRUE(session::settle(session));
  session.remember();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace keyscope::test
