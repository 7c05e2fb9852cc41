// The house rules that a program can check, read off the sources. CONTRIBUTING.md says what they are for.
//
// Every check takes a tree of texts and returns what is wrong with it, so that small made-up trees show that
// it can fail.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyscope {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Tree = std::map<std::string, std::string>;  // texts by path, from the top of the checkout
using Findings = std::vector<std::string>;
using Reasons = std::map<std::string, std::string>;  // exceptions to a rule, by path

struct Room {
  std::string folder;                       // with all folders below it that are no room themselves
  std::vector<std::string> directly_below;  // what it may include, with all that lies below those
};

const std::vector<Room> kRooms{
    {"base", {}},
    {"analysis", {"base"}},
    {"capture/kernels", {"analysis"}},
    {"capture/recording", {"analysis"}},
    {"capture/jinja", {"base"}},
    {"capture/gguf", {"base"}},
    {"capture/tokenizer", {"capture/recording", "capture/jinja", "capture/gguf"}},
    {"capture/model", {"capture/tokenizer", "capture/kernels"}},
    {"capture/inference", {"capture/model"}},
    {"capture/replay", {"capture/model"}},
    {"capture/python", {"analysis"}},
    {"app/measures", {"capture/model", "capture/replay"}},
    {"app/figures", {"app/measures"}},
    {"app/drawing", {"app/figures"}},
    {"app/results", {"app/drawing", "capture/inference"}},
    {"app/benchmarks", {"app/drawing", "capture/inference"}},
    {"app/session", {"app/drawing", "capture/inference", "capture/replay"}},
    {"app/evaluation", {"app/results"}},
    {"app/validation", {"app/results"}},
    {"app/adoption", {"app/evaluation", "app/validation", "app/benchmarks"}},
    {"app/grid", {"app/adoption"}},
    {"shaders", {}},
    {"app/display", {"app/session", "shaders"}},
    {"app/panels", {"app/display"}},
    {"app/window", {"app/panels"}},
    {"app/sweep", {"app/figures"}},
    {"app/commands", {"app/window", "app/grid", "app/sweep", "capture/replay", "capture/python"}},
};

const Reasons kOneUser{
    {"app/commands/validate.hpp", "a study runs what `validate` would"},
    {"app/commands/view.hpp", "`bench view` and `bench live` open the window as `view` does"},
    {"app/panels/difference_view.hpp", "the window holds its state"},
    {"app/panels/figure_panel.hpp", "the window holds its state"},
    {"app/panels/filter_panel.hpp", "the window holds its state"},
    {"app/panels/keyspace_panel.hpp", "the window holds its state"},
    {"app/panels/keyspace_plot.hpp", "the key-space panel holds its state"},
    {"app/panels/timeline_panel.hpp", "the window holds its state"},
    {"app/session/inbox.hpp", "a template that knows nothing of the session"},
    {"capture/jinja/expression_parser.hpp", "with parser.cpp it would be over 600 lines"},
    {"capture/kernels/product_tile.hpp", "with kernel_loops.cpp it would be 500 lines of two concepts"},
    {"capture/kernels/softmax_tile.hpp", "with kernel_loops.cpp it would be 600 lines of two concepts"},
    {"capture/model/layer_tensors.hpp", "with weights.cpp it would be over 600 lines"},
    {"capture/recording/run_writer.hpp", "with writer.cpp it would be 700 lines"},
    {"capture/replay/replay_file.hpp", "with replay.cpp it would be over 600 lines"},
};

const Reasons kJsonInHeaders{
    {"app/adoption/tasks.hpp", "a task holds the JSON of its settings"},
    {"app/commands/eval.hpp", "holds the JSON that every task writes"},
    {"app/evaluation/example.hpp", "an example holds JSON about it"},
    {"app/sweep/study.hpp", "a job holds the JSON of its options"},
    {"capture/tokenizer/tokenizer_json.hpp", "holds the parsed tokenizer.json"},
};

constexpr std::ptrdiff_t kMostLines = 600;

bool is_product(const std::string& file) {
  return std::ranges::any_of(std::vector{"base/", "analysis/", "capture/", "app/"},
                             [&](const char* folder) { return file.starts_with(folder); });
}

bool is_header(const std::string& file) { return file.ends_with(".hpp"); }

Tree sources_below(const std::vector<std::string>& folders) {
  const fs::path top = KEYSCOPE_SOURCE_DIR;
  Tree tree;
  for (const auto& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(top / folder)) {
      if (entry.path().extension() != ".hpp" && entry.path().extension() != ".cpp") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      tree[fs::relative(entry.path(), top).generic_string()] = {std::istreambuf_iterator<char>(file), {}};
    }
  return tree;
}

const Tree& whole_tree() {
  static const Tree tree = sources_below({"base", "analysis", "capture", "app", "shaders", "tests", "bench"});
  return tree;
}

// What a file includes: `app/a.hpp` of the project, `<string>` of others.
std::set<std::string> includes_of(const std::string& text) {
  constexpr std::string_view kInclude = "#include ";
  std::set<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kInclude) || line.size() < kInclude.size() + 3) continue;
    const bool quoted = line[kInclude.size()] == '"';
    const std::size_t end = line.find(quoted ? '"' : '>', kInclude.size() + 1);
    if (end == std::string::npos) continue;
    const std::size_t begin = kInclude.size() + (quoted ? 1 : 0);
    names.insert(line.substr(begin, end - begin + (quoted ? 0 : 1)));
  }
  return names;
}

Findings lines_with(const Tree& tree, const std::string& folder, const std::vector<std::string>& forbidden,
                    const std::vector<std::string>& allowed = {}) {
  Findings found;
  bool any = false;
  for (const auto& [file, text] : tree) {
    if (!file.starts_with(folder + "/")) continue;
    any = true;
    std::istringstream lines(text);
    int number = 1;
    for (std::string line; std::getline(lines, line); ++number)
      for (const auto& word : forbidden)
        if (line.find(word) != std::string::npos && std::ranges::none_of(allowed, [&](const auto& each) {
              return line.find(each) != std::string::npos;
            }))
          found.push_back(file + ":" + std::to_string(number) + " has " + word);
  }
  if (!any) found.push_back(folder + " has no sources");
  return found;
}

const Room* room_of(const std::string& file) {
  const auto found =
      std::ranges::find_if(kRooms, [&](const Room& room) { return file.starts_with(room.folder + "/"); });
  return found == kRooms.end() ? nullptr : &*found;
}

bool lies_below(const std::string& folder, const Room& room) {
  return std::ranges::any_of(room.directly_below, [&](const std::string& below) {
    return below == folder || lies_below(folder, *room_of(below + "/"));
  });
}

Findings includes_upwards(const Tree& tree) {
  Findings found;
  for (const auto& [file, text] : tree) {
    if (!is_product(file)) continue;
    const Room* room = room_of(file);
    if (room == nullptr) found.push_back(file + " is in no room");
    for (const auto& name : includes_of(text)) {
      if (name.starts_with("<") || room == nullptr) continue;
      const Room* other = room_of(name);
      if (other == nullptr || (other != room && !lies_below(other->folder, *room)))
        found.push_back(file + " includes " + name);
    }
  }
  return found;
}

// Walks the includes from `file` on. `path` are the files that led there.
void follow(const Tree& tree, const std::string& file, std::vector<std::string>& path,
            std::set<std::string>& done, Findings& found) {
  if (done.contains(file)) return;
  if (const auto begin = std::ranges::find(path, file); begin != path.end()) {
    std::string cycle;
    for (auto each = begin; each != path.end(); ++each) cycle += *each + " > ";
    found.push_back(cycle + file);
    return;
  }
  const auto text = tree.find(file);
  if (text == tree.end()) return;
  path.push_back(file);
  for (const auto& name : includes_of(text->second)) follow(tree, name, path, done, found);
  path.pop_back();
  done.insert(file);
}

Findings include_cycles(const Tree& tree) {
  Findings found;
  std::vector<std::string> path;
  std::set<std::string> done;
  for (const auto& [file, text] : tree) follow(tree, file, path, done, found);
  return found;
}

// A file of app/commands is called as its subcommand, whatever others are called.
Findings stems_that_stand_twice(const Tree& tree) {
  std::map<std::string, std::set<std::string>> places;
  for (const auto& [file, text] : tree) {
    if (!is_product(file) || file.starts_with("app/commands/")) continue;
    const fs::path path = file;
    places[path.stem().string()].insert(path.parent_path().generic_string());
  }
  Findings found;
  for (const auto& [stem, folders] : places) {
    if (folders.size() < 2) continue;
    std::string where;
    for (const auto& folder : folders) where += " " + folder;
    found.push_back(stem + " stands in" + where);
  }
  return found;
}

// Users are the files of the product that include a header, its own source not counted; all tests and
// benchmarks together count as one more, if there is another.
Findings headers_with_one_user(const Tree& tree, const Reasons& exceptions) {
  std::map<std::string, std::pair<int, bool>> users;  // of the product; whether a test needs it
  for (const auto& [file, text] : tree)
    for (const auto& name : includes_of(text)) {
      if (!is_product(file))
        users[name].second = true;
      else if (fs::path(file).replace_extension() != fs::path(name).replace_extension())
        ++users[name].first;
    }
  Findings found;
  for (const auto& [file, text] : tree) {
    if (!is_product(file) || !is_header(file)) continue;
    const auto [n_files, tested] = users[file];
    const bool has_users = n_files >= 2 || (n_files == 1 && tested);
    if (!has_users && !exceptions.contains(file))
      found.push_back(file +
                      " has fewer than two users; what one file uses stands in its anonymous namespace");
    if (has_users && exceptions.contains(file)) found.push_back(file + " needs no exception");
  }
  for (const auto& [file, reason] : exceptions)
    if (!tree.contains(file)) found.push_back(file + " is an exception and not there");
  return found;
}

Findings heavy_headers(const Tree& tree, const Reasons& exceptions) {
  Findings found;
  for (const auto& [file, text] : tree) {
    if (!is_product(file) || !is_header(file)) continue;
    bool heavy = false;
    for (const auto& name : includes_of(text)) {
      if (name != "<nlohmann/json.hpp>" && !name.starts_with("<CLI/")) continue;
      heavy = true;
      if (!exceptions.contains(file)) found.push_back(file + " includes " + name);
    }
    if (!heavy && exceptions.contains(file)) found.push_back(file + " needs no exception");
  }
  for (const auto& [file, reason] : exceptions)
    if (!tree.contains(file)) found.push_back(file + " is an exception and not there");
  return found;
}

// Constants of a source that go by the name of one in a header of its room.
Findings hidden_constants(const Tree& tree) {
  const std::regex constant(
      R"(\n(?:inline )?const(?:expr)?\s[^=(\n]*?\b(k[A-Z]\w*)(?:\[[^\]\n]*\])?\s*[={;])");
  std::map<std::string, std::map<std::string, std::string>> of_headers;  // [room][name]
  const auto each = [&](bool headers, const auto& visit) {
    for (const auto& [file, text] : tree) {
      if (!is_product(file) || is_header(file) != headers) continue;
      for (std::sregex_iterator match(text.begin(), text.end(), constant), end; match != end; ++match)
        visit(fs::path(file).parent_path().string(), (*match)[1].str(), file);
    }
  };
  each(true, [&](const auto& room, const auto& name, const auto& file) { of_headers[room][name] = file; });
  Findings found;
  each(false, [&](const auto& room, const auto& name, const auto& file) {
    const auto hidden = of_headers[room].find(name);
    if (hidden != of_headers[room].end())
      found.push_back(file + " has a " + name + " of its own beside that of " + hidden->second);
  });
  return found;
}

Findings long_files(const Tree& tree) {
  Findings found;
  for (const auto& [file, text] : tree) {
    const auto n_lines = std::ranges::count(text, '\n');
    if (is_product(file) && n_lines > kMostLines)
      found.push_back(file + " has " + std::to_string(n_lines) + " lines");
  }
  return found;
}

TEST(Layering, AnalysisIsMathematicsAlone) {
  EXPECT_THAT(lines_with(whole_tree(), "analysis",
                         {"#include \"capture/", "#include \"app/", "#include <torch/", "#include <ATen/",
                          "#include <c10/", "#include <hdf5", "#include <H5", "#include <imgui",
                          "#include <GLFW", "#include <epoxy", "#include <cairo", "#include <nlohmann"}),
              IsEmpty());
}

TEST(Layering, AnalysisNeitherPrintsNorReads) {
  EXPECT_THAT(
      lines_with(whole_tree(), "analysis",
                 {"#include <iostream>", "#include <cstdio>", "#include <stdio.h>", "#include <print>",
                  "#include <fstream>", "#include <fmt/os.h>", "#include <fmt/ostream.h>", "#include <spdlog",
                  "#include <filesystem>", "fmt::print", "printf(", "std::cout", "std::cerr", "puts("}),
      IsEmpty());
}

TEST(Layering, CaptureKnowsNoApplication) {
  EXPECT_THAT(lines_with(whole_tree(), "capture",
                         {"#include \"app/", "#include <imgui", "#include <GLFW", "#include <epoxy",
                          "#include <cairo", "#include <pango"}),
              IsEmpty());
}

TEST(Layering, RecordingsAndTokenizersNeedNoLibTorch) {
  const std::vector<std::string> forbidden{"#include <torch/", "#include <ATen/", "#include <c10/",
                                           "#include \"capture/model/", "#include \"capture/inference/"};
  for (const char* folder : {"capture/jinja", "capture/recording", "capture/tokenizer"})
    EXPECT_THAT(lines_with(whole_tree(), folder, forbidden), IsEmpty());
  // What a config.json says about windows and rotation, and what a policy reads of a file, needs no LibTorch
  // either.
  const std::vector<std::string> allowed{"\"capture/model/recorded_attention.hpp\"",
                                         "\"capture/model/policy_file.hpp\""};
  EXPECT_THAT(lines_with(whole_tree(), "capture/replay", forbidden, allowed), IsEmpty());
}

// Else every command would start it.
TEST(Layering, TheApplicationNeedsNoLibTorch) {
  EXPECT_THAT(lines_with(whole_tree(), "app", {"#include <torch/", "#include <ATen/", "#include <c10/"}),
              IsEmpty());
}

TEST(Layering, WhatAFolderMustNotHaveIsFound) {
  const Tree tree{{"analysis/a.cpp", "int a;\n#include <fstream>\n"}, {"app/b.cpp", "#include <fstream>\n"}};
  EXPECT_THAT(lines_with(tree, "analysis", {"#include <fstream>"}),
              ElementsAre("analysis/a.cpp:2 has #include <fstream>"));
  EXPECT_THAT(lines_with(tree, "capture", {"#include <fstream>"}), ElementsAre("capture has no sources"));
}

TEST(Layering, RoomsIncludeOnlyWhatLiesBelow) { EXPECT_THAT(includes_upwards(whole_tree()), IsEmpty()); }

TEST(Layering, WhatIsIncludedUpwardsIsFound) {
  EXPECT_THAT(includes_upwards({{"app/panels/a.cpp", "#include \"base/b.hpp\"\n#include <string>\n"},
                                {"app/figures/b.cpp", "#include \"app/figures/c.hpp\"\n"},
                                {"tests/c.cpp", "#include \"app/window/d.hpp\"\n"}}),
              IsEmpty());
  EXPECT_THAT(includes_upwards({{"app/results/a.hpp", "#include \"app/validation/b.hpp\"\n"},
                                {"app/session/b.cpp", "#include \"app/results/c.hpp\"\n"},
                                {"base/c.cpp", "#include \"tests/d.hpp\"\n"},
                                {"app/attic/d.cpp", ""}}),
              ElementsAre("app/attic/d.cpp is in no room", "app/results/a.hpp includes app/validation/b.hpp",
                          "app/session/b.cpp includes app/results/c.hpp", "base/c.cpp includes tests/d.hpp"));
}

TEST(Layering, NoFileIncludesItself) { EXPECT_THAT(include_cycles(whole_tree()), IsEmpty()); }

TEST(Layering, CyclesOfIncludesAreFound) {
  EXPECT_THAT(include_cycles({{"base/a.hpp", "#include \"base/b.hpp\"\n"},
                              {"base/b.hpp", "#include \"base/c.hpp\"\n"},
                              {"base/c.hpp", "#include \"base/b.hpp\"\n"}}),
              ElementsAre("base/b.hpp > base/c.hpp > base/b.hpp"));
  EXPECT_THAT(include_cycles({{"base/a.hpp", "#include \"base/b.hpp\"\n#include \"base/c.hpp\"\n"},
                              {"base/b.hpp", "#include \"base/c.hpp\"\n"},
                              {"base/c.hpp", ""}}),
              IsEmpty());
}

TEST(Layering, AStemStandsOnceInTheTree) { EXPECT_THAT(stems_that_stand_twice(whole_tree()), IsEmpty()); }

TEST(Layering, AStemThatStandsTwiceIsFound) {
  EXPECT_THAT(stems_that_stand_twice({{"base/a.hpp", ""},
                                      {"base/a.cpp", ""},
                                      {"app/commands/a.cpp", ""},
                                      {"tests/a.cpp", ""},
                                      {"app/figures/b.cpp", ""},
                                      {"analysis/b.hpp", ""}}),
              ElementsAre("b stands in analysis app/figures"));
}

TEST(Layering, AHeaderHasTwoUsers) { EXPECT_THAT(headers_with_one_user(whole_tree(), kOneUser), IsEmpty()); }

TEST(Layering, AHeaderWithOneUserIsFound) {
  const std::string include = "#include \"base/a.hpp\"\n";
  const std::string complaint =
      "base/a.hpp has fewer than two users; what one file uses stands in its anonymous namespace";
  Tree tree{{"base/a.hpp", ""}, {"base/a.cpp", include}, {"base/b.cpp", include}};
  EXPECT_THAT(headers_with_one_user(tree, {}), ElementsAre(complaint));
  EXPECT_THAT(headers_with_one_user(tree, {{"base/a.hpp", "made up"}}), IsEmpty());
  tree["tests/a_test.cpp"] = include;
  EXPECT_THAT(headers_with_one_user(tree, {}), IsEmpty());
  EXPECT_THAT(headers_with_one_user(tree, {{"base/a.hpp", "made up"}, {"base/c.hpp", "made up"}}),
              ElementsAre("base/a.hpp needs no exception", "base/c.hpp is an exception and not there"));
  tree["base/b.cpp"] = "";
  EXPECT_THAT(headers_with_one_user(tree, {}), ElementsAre(complaint)) << "used by tests alone";
}

TEST(Layering, HeadersReadNeitherAllOfJsonNorTheCommandLine) {
  EXPECT_THAT(heavy_headers(whole_tree(), kJsonInHeaders), IsEmpty());
}

TEST(Layering, HeavyHeadersAreFound) {
  const Tree tree{{"base/a.hpp", "#include <nlohmann/json.hpp>\n"},
                  {"base/b.hpp", "#include <nlohmann/json_fwd.hpp>\n"},
                  {"base/b.cpp", "#include <nlohmann/json.hpp>\n"},
                  {"base/c.hpp", "#include <CLI/App.hpp>\n"}};
  EXPECT_THAT(heavy_headers(tree, {{"base/a.hpp", "made up"}}),
              ElementsAre("base/c.hpp includes <CLI/App.hpp>"));
  EXPECT_THAT(heavy_headers(tree, {{"base/a.hpp", ""}, {"base/b.hpp", ""}, {"base/c.hpp", ""}}),
              ElementsAre("base/b.hpp needs no exception"));
}

// Compiled as one, the sources of a room would read the one or the other, by their order.
TEST(Layering, NoSourceHasAConstantOfAHeadersName) { EXPECT_THAT(hidden_constants(whole_tree()), IsEmpty()); }

TEST(Layering, AConstantThatHidesAHeadersIsFound) {
  const Tree tree{{"base/a.hpp", "\ninline constexpr int kMost = 2;\n"},
                  {"base/b.cpp", "\nconstexpr std::array<int, 2> kMost{1, 2};\nint f(int kLeast = 1);\n"},
                  {"analysis/c.cpp", "\nconst int kMost = 3;\n"}};
  EXPECT_THAT(hidden_constants(tree),
              ElementsAre("base/b.cpp has a kMost of its own beside that of base/a.hpp"));
}

TEST(Layering, NoFileHasOver600Lines) { EXPECT_THAT(long_files(whole_tree()), IsEmpty()); }

TEST(Layering, LongFilesAreFound) {
  const std::string most(kMostLines, '\n');
  EXPECT_THAT(long_files({{"base/a.cpp", most}, {"base/b.cpp", most + '\n'}, {"tests/c.cpp", most + '\n'}}),
              ElementsAre("base/b.cpp has 601 lines"));
}

}  // namespace
}  // namespace keyscope
