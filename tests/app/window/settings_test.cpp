#include "app/window/settings.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/scratch_folder.hpp"

namespace keyscope::window {
namespace {

TEST(Settings, ComeBackAsTheyWere) {
  const test::ScratchFolder folder;
  EXPECT_EQ(load_settings(folder.path()), Settings());
  save_settings(folder.path() / "keyscope", {true, 900, 700});
  EXPECT_EQ(load_settings(folder.path() / "keyscope"), (Settings{true, 900, 700}));
  save_settings({}, {true, 900, 700});  // without a home
  EXPECT_EQ(load_settings({}), Settings());
}

TEST(Settings, WhatMakesNoSenseIsTheDefault) {
  const test::ScratchFolder folder;
  for (const char* text :
       {"{", "[true]", R"({"light": "yes", "width": 900})", R"({"width": -900, "height": 700})",
        R"({"width": 1e99, "height": 700})", R"({"width": 99999999999999999999, "height": 700})",
        R"({"light": null, "width": [900], "height": {"a": 700}})", R"({"width": 900.5, "height": 700})"}) {
    std::ofstream(folder.file("window.json"), std::ios::trunc) << text;
    EXPECT_EQ(load_settings(folder.path()), Settings()) << text;
  }
}

}  // namespace
}  // namespace keyscope::window
