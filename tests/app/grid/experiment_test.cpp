#include "app/grid/experiment.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::grid {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr const char* kExample = R"({
  "format": 1, "name": "made", "claim": "One is better.", "source": "a paper",
  "models": [{"repository": "org/Model-8B", "layers": 32, "heads": 32, "kv_heads": 8, "hidden": 4096}],
  "tolerance_points": 2,
  "tasks": [{"name": "needles", "kind": "niah", "length": 512, "samples": 20}],
  "rows": [
    {"what": "full", "task": "needles", "policy": "none", "block": 128},
    {"what": "one", "task": "needles", "policy": "keydiff", "budget": "50%", "block": 128, "published": 77},
    {"what": "more", "task": "needles", "policy": "manifold", "budget": "50%", "block": 128,
     "against": {"policy": "keydiff"}, "published": {"at_least": 10}}]})";

Experiment read(const std::string& text) {
  const test::ScratchFolder folder;
  const fs::path file = folder.file("experiment.json");
  std::ofstream(file) << text;
  return read_experiment(file);
}

TEST(Experiment, IsReadAsItIsWritten) {
  const Experiment experiment = read(kExample);
  EXPECT_EQ(experiment.name, "made");
  EXPECT_EQ(experiment.models.front().hidden, 4096);
  EXPECT_EQ(experiment.tasks.front().length, 512);
  ASSERT_EQ(experiment.rows.size(), 3U);
  EXPECT_FALSE(experiment.rows[0].published());
  EXPECT_EQ(experiment.rows[1].low, 77);
  EXPECT_EQ(experiment.rows[1].high, 77);
  EXPECT_EQ(experiment.rows[2].against_policy, "keydiff");
  EXPECT_EQ(experiment.rows[2].against_budget, "50%") << "the row's own, where it names no other";
  EXPECT_EQ(experiment.rows[2].low, 10);
  EXPECT_FALSE(experiment.rows[2].high);
}

TEST(Experiment, HasNumbersOfPartsAndOfOtherScores) {
  Json json = parse_ordered_json(kExample);
  json["tasks"][0] = {{"name", "needles"}, {"kind", "math500"},   {"answers", 5},    {"temperature", 0.95},
                      {"top_p", 0.9},      {"depths", {0, 12.5}}, {"entries", {100}}};
  json["rows"] = {{{"what", "all"},
                   {"task", "needles"},
                   {"policy", "keydiff"},
                   {"budget", "64"},
                   {"block", 128},
                   {"score", "exact"},
                   {"only", "over_budget"},
                   {"published", 40},
                   {"not_comparable", "of more"},
                   {"published_parts", {{"easy", 60}, {"hard", {{"at_most", 20}}}}}}};
  const Experiment experiment = read(json_text(json));
  const ExperimentTask& task = experiment.tasks.front();
  EXPECT_EQ(task.answers, 5);
  EXPECT_EQ(task.temperature, 0.95);
  EXPECT_EQ(task.top_p, 0.9);
  EXPECT_EQ(task.depths, (std::vector<double>{0, 12.5}));
  EXPECT_EQ(task.entries, (std::vector<std::int64_t>{100}));
  ASSERT_EQ(experiment.rows.size(), 3U);
  for (const ExperimentRow& row : experiment.rows) {
    EXPECT_EQ(row.score, "exact");
    EXPECT_TRUE(row.over_budget);
  }
  EXPECT_EQ(experiment.rows[0].part, "");
  EXPECT_EQ(experiment.rows[0].not_comparable, "of more");
  EXPECT_EQ(experiment.rows[1].part, "easy");
  EXPECT_EQ(experiment.rows[1].low, 60);
  EXPECT_EQ(experiment.rows[1].not_comparable, "") << "the average's number is of more, not this one";
  EXPECT_EQ(experiment.rows[2].what, "all, hard");
  EXPECT_FALSE(experiment.rows[2].low);
  EXPECT_EQ(experiment.rows[2].high, 20);
  json["rows"][0]["published_parts"] = {{"856", 1}, {"1233", 2}, {"67.5", 3}};
  std::vector<std::string> parts;
  for (const ExperimentRow& row : read(json_text(json)).rows) parts.push_back(row.part);
  EXPECT_EQ(parts, (std::vector<std::string>{"", "67.5", "856", "1233"})) << "numbers by their size";
}

TEST(Experiment, SaysWhatIsWrongWithAFile) {
  const auto complains = [](const auto& change, const char* words) {
    Json json = parse_ordered_json(kExample);
    change(json);
    try {
      read(json_text(json));
      ADD_FAILURE() << "nothing was wrong: " << words;
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), HasSubstr("experiment.json"));
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  };
  complains([](Json& json) { json["format"] = 2; }, "format");
  complains([](Json& json) { json["rows"] = Json::array(); }, "rows");
  complains([](Json& json) { json["models"] = Json::array(); }, "models");
  complains([](Json& json) { json["rows"][1]["task"] = "others"; }, "others");
  complains([](Json& json) { json["rows"][1].erase("budget"); }, "budget");
  complains([](Json& json) { json["rows"][1]["published"] = "77"; }, "published");
  complains([](Json& json) { json["rows"][1]["published"] = Json::object(); }, "at_most");
  complains([](Json& json) { json["rows"][1]["pulbished"] = 77; }, "pulbished");
  complains([](Json& json) { json["rows"][1]["published_parts"] = {{"a", "b"}}; }, "published_parts.a");
  complains([](Json& json) { json["rows"][2]["share_of"] = {{"policy", "none"}}; }, "against or share_of");
  complains([](Json& json) { json["rows"][2]["score"] = "gone_everywhere"; }, "gone_everywhere");
  complains([](Json& json) { json["rows"][1]["only"] = "others"; }, "over_budget");
  complains([](Json& json) { json["rows"][0]["only"] = "over_budget"; }, "only");
  complains([](Json& json) { json["tasks"][0]["answers"] = 5; }, "math500");
  complains([](Json& json) { json["tolerance_points"] = -1; }, "tolerance_points");
  complains([](Json& json) { json["tasks"].push_back(json["tasks"][0]); }, "twice");
  complains([](Json& json) { json["tasks"][0]["name"] = "../needles"; }, "small letters");
}

// Every claim that is there can be read; none of its numbers is nonsense.
TEST(Experiment, ThoseOfTheRepositoryCanBeRead) {
  int n_files = 0, n_published = 0;
  for (const auto& entry : fs::directory_iterator(KEYSCOPE_SOURCE_DIR "/experiments")) {
    const Experiment experiment = read_experiment(entry.path());
    EXPECT_EQ(experiment.name, entry.path().stem().string());
    EXPECT_GT(experiment.tolerance_points, 0);
    for (const ExperimentRow& row : experiment.rows) {
      n_published += row.published() ? 1 : 0;
      for (const auto& end : {row.low, row.high}) EXPECT_LE(std::abs(end.value_or(0)), 100) << row.what;
    }
    ++n_files;
  }
  EXPECT_GE(n_files, 24);
  EXPECT_GE(n_published, 900);
}

TEST(Experiment, IsOfAModelByItsNameAndItsShape) {
  const Experiment experiment = read(kExample);
  capture::ModelConfig config;
  config.n_layers = config.n_heads = 32;
  config.n_kv_heads = 8;
  config.hidden_size = 4096;
  results::ModelIdentity model;
  for (const char* name : {"org/Model-8B", "Model-8B"}) {
    model.name = name;
    EXPECT_TRUE(is_published(experiment, model, config)) << name;
  }
  model.name = "Model-8B-Chat";
  EXPECT_FALSE(is_published(experiment, model, config)) << "another model";
  model.name = "Model-8B";
  config.n_layers = 2;
  EXPECT_FALSE(is_published(experiment, model, config)) << "something small under its name";
}

ExperimentRow row_of(std::optional<double> low, std::optional<double> high) {
  ExperimentRow row;
  row.low = low;
  row.high = high;
  return row;
}

TEST(Judge, HoldsTheIntervalAgainstTheNumberAndItsTolerance) {
  const auto verdict = [](double low, double high) {
    return judge(row_of(77, 77), {(low + high) / 2, low, high, 100}, 3, "").verdict;
  };
  EXPECT_EQ(verdict(75, 79), Verdict::kAgrees);
  EXPECT_EQ(verdict(74, 80), Verdict::kAgrees) << "up to the ends";
  EXPECT_EQ(verdict(60, 73.9), Verdict::kDiffers);
  EXPECT_EQ(verdict(80.1, 90), Verdict::kDiffers);
  EXPECT_EQ(verdict(70, 78), Verdict::kCannotTell) << "over an end";
  EXPECT_EQ(verdict(40, 95), Verdict::kCannotTell) << "too wide, although the number lies in it";
}

TEST(Judge, KnowsNumbersWithOneEnd) {
  const auto found = [](double low, double high) {
    return analysis::BootstrapMean{(low + high) / 2, low, high, 100};
  };
  EXPECT_EQ(judge(row_of({}, 6.4), found(0, 7), 1, "").verdict, Verdict::kAgrees);
  EXPECT_EQ(judge(row_of({}, 6.4), found(9, 30), 1, "").verdict, Verdict::kDiffers);
  EXPECT_EQ(judge(row_of(-0.04, {}), found(0.1, 2), 0.5, "").verdict, Verdict::kAgrees);
  EXPECT_EQ(judge(row_of(-0.04, {}), found(-3, -1), 0.5, "").verdict, Verdict::kDiffers);
  EXPECT_EQ(judge(row_of(-0.04, {}), found(-3, 1), 0.5, "").verdict, Verdict::kCannotTell);
}

TEST(Judge, SaysWhyItCannotTell) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const analysis::BootstrapMean exact{77, 76, 78, 100};
  EXPECT_THAT(judge(row_of(77, 77), exact, 3, "another model").reason, HasSubstr("another model"));
  EXPECT_THAT(judge(row_of({}, {}), exact, 3, "").reason, HasSubstr("no number"));
  ExperimentRow of_more = row_of(77, 77);
  of_more.not_comparable = "of more data sets";
  EXPECT_EQ(judge(of_more, exact, 3, "another model").reason, "of more data sets");
  EXPECT_EQ(judge(of_more, exact, 3, "").verdict, Verdict::kCannotTell);
  EXPECT_THAT(judge(row_of(77, 77), {77, nan, nan, 1}, 3, "").reason, HasSubstr("too few"));
  EXPECT_THAT(judge(row_of(77, 77), {77, 50, 90, 9}, 3, "").reason, HasSubstr("more examples"));
}

// Three of three right do not show that all are.
TEST(WithRoom, LeavesRoomWhereAllExamplesAgree) {
  const auto all_right = with_room({100, 100, 100, 3}, false);
  EXPECT_NEAR(all_right.low, 100 * std::pow(0.025, 1.0 / 3), 1e-6);
  EXPECT_EQ(all_right.high, 100);
  EXPECT_EQ(judge(row_of(100, 100), all_right, 3, "").verdict, Verdict::kCannotTell);
  EXPECT_EQ(judge(row_of(100, 100), with_room({100, 100, 100, 500}, false), 3, "").verdict, Verdict::kAgrees);
  const auto no_difference = with_room({0, 0, 0, 10}, true);
  EXPECT_NEAR(no_difference.low, -no_difference.high, 1e-9);
  EXPECT_LT(no_difference.low, -20);
  const auto usual = with_room({50, 40, 60, 100}, false);
  EXPECT_EQ(usual.low, 40);
  EXPECT_EQ(usual.high, 60);
}

}  // namespace
}  // namespace keyscope::grid
