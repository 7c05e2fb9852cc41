// Three rooms and one direction, read off the sources: what stands in an #include cannot be argued away.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace keyscope {
namespace {

namespace fs = std::filesystem;

struct Line {
  std::string file, text;
  int number;
};

std::vector<Line> source_lines(const std::string& folder) {
  std::vector<Line> lines;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(KEYSCOPE_SOURCE_DIR) / folder)) {
    if (entry.path().extension() != ".hpp" && entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path());
    std::string text;
    for (int number = 1; std::getline(file, text); ++number)
      lines.push_back({entry.path().string(), text, number});
  }
  return lines;
}

void expect_no_line_with(const std::string& folder, const std::vector<std::string>& forbidden,
                         const std::string& allowed = "nothing") {
  const auto lines = source_lines(folder);
  ASSERT_FALSE(lines.empty()) << folder;
  for (const auto& line : lines)
    for (const auto& word : forbidden)
      EXPECT_TRUE(line.text.find(word) == std::string::npos || line.text.find(allowed) != std::string::npos)
          << line.file << ":" << line.number << " has " << word;
}

TEST(Layering, AnalysisIsMathematicsAlone) {
  expect_no_line_with(
      "analysis", {"#include \"capture/", "#include \"app/", "#include <torch/", "#include <ATen/",
                   "#include <c10/", "#include <hdf5", "#include <H5", "#include <imgui", "#include <GLFW",
                   "#include <epoxy", "#include <cairo", "#include <nlohmann"});
}

TEST(Layering, AnalysisNeitherPrintsNorReads) {
  expect_no_line_with("analysis", {"#include <iostream>", "#include <cstdio>", "#include <stdio.h>",
                                   "#include <print>", "#include <fstream>", "#include <fmt/os.h>",
                                   "#include <fmt/ostream.h>", "#include <spdlog", "#include <filesystem>",
                                   "fmt::print", "printf(", "std::cout", "std::cerr", "puts("});
}

TEST(Layering, CaptureKnowsNoApplication) {
  expect_no_line_with("capture", {"#include \"app/", "#include <imgui", "#include <GLFW", "#include <epoxy",
                                  "#include <cairo", "#include <pango"});
}

TEST(Layering, RecordingsAndTokenizersNeedNoLibTorch) {
  const std::vector<std::string> forbidden{"#include <torch/", "#include <ATen/", "#include <c10/",
                                           "#include \"capture/model/", "#include \"capture/inference/"};
  for (const char* folder : {"capture/recording", "capture/tokenizer"})
    expect_no_line_with(folder, forbidden);
  // What a config.json says about windows needs no LibTorch either.
  expect_no_line_with("capture/replay", forbidden, "#include \"capture/model/config.hpp\"");
}

}  // namespace
}  // namespace keyscope
