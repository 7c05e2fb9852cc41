#include "app/evaluation/evaluation.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/recording/recording.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::evaluation {

// `keyscope eval` as a whole: killed and begun again, stopped by Ctrl-C, refused.

namespace {

using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

class Eval : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name).string(); }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }
  std::set<std::string> lines(const std::string& name) const {
    std::istringstream text(read(name));
    std::set<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.insert(line);
    return lines;
  }
  Arguments niah(const std::string& out, const std::string& samples = "2") const {
    return {"eval",    "niah",     "--model",   test::kDemoModel, "--policy", "keydiff",  "--policy",
            "h2o",     "--budget", "25%,48",    "--block",        "32",       "--length", "150,256",
            "--depth", "0,50,100", "--samples", samples,          "--quiet",  "--out",    path(out)};
  }
  nlohmann::json results(const std::string& out) const { return parse_json(read(out + "/results.json")); }

  test::ScratchFolder folder_;
};

// A cut recording of that name would be taken for a whole one: it never has it, not even for a moment.
TEST_F(Eval, ARecordingThatIsCutShortGetsNoName) {
  Arguments asked = niah("out", "1");
  asked.insert(asked.end(), {"--threads", "1"});
  *std::ranges::find(asked, std::string("150,256")) = "1024";
  *std::ranges::find(asked, std::string("25%,48")) = "5%";
  ASSERT_EQ(test::run_cli(asked).status, 0);
  const std::string recordings = path("out/recordings");
  std::filesystem::create_directory(recordings);
  const int changes = inotify_init1(IN_NONBLOCK);
  ASSERT_GE(inotify_add_watch(changes, recordings.c_str(), IN_CREATE | IN_MOVED_TO), 0);
  asked.insert(asked.end(), {"--record", "1"});
  const auto has_part = [&] {
    return std::ranges::any_of(std::filesystem::directory_iterator(recordings), [](const auto& entry) {
      return entry.path().string().ends_with(".h5.part") && entry.file_size() > 0;
    });
  };
  ::testing::internal::CaptureStderr();
  {
    test::CliProcess process(asked);
    for (int i = 0; i < 3000 && !has_part(); ++i) usleep(1000);
    ASSERT_TRUE(has_part());
    ASSERT_EQ(process.end_by(SIGINT), 130) << "too late to be cut short";
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the same command goes on with recordings"));
  std::set<std::string> seen;
  alignas(inotify_event) std::array<char, 4096> events{};
  for (ssize_t n = 0; (n = ::read(changes, events.data(), events.size())) > 0;)
    for (ssize_t at = 0; at < n;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(&events[at]);
      seen.insert(event->name);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  close(changes);
  EXPECT_TRUE(std::ranges::any_of(seen, [](const auto& name) { return name.ends_with(".h5.part"); }));
  for (const std::string& name : seen) EXPECT_FALSE(name.ends_with(".h5")) << name;
  EXPECT_FALSE(has_part());
}

// Its part is not this command's to remove.
TEST_F(Eval, ARecordingThatAnotherCaptureWritesIsLeftToIt) {
  Arguments asked = niah("out", "1");
  asked.insert(asked.end(), {"--record", "1"});
  ASSERT_EQ(test::run_cli(asked).status, 0);
  const std::filesystem::path recording = std::filesystem::directory_iterator(path("out/recordings"))->path();
  const std::string part = recording.string() + ".part";
  std::filesystem::rename(recording, part);
  {
    const Descriptor other(part, O_RDWR);
    ASSERT_EQ(try_lock(other.id()), FileLock::kHeld);
    const auto refused = test::run_cli(asked);
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, HasSubstr(part));
    EXPECT_TRUE(std::filesystem::exists(part));
    EXPECT_FALSE(std::filesystem::exists(recording));
  }
  const auto again = test::run_cli(asked);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(std::filesystem::exists(recording));
  EXPECT_FALSE(std::filesystem::exists(part));
}

// What is recorded is the example as it was asked: the same answers, and where its evidence stands.
TEST_F(Eval, RecordsExamplesThatAreAnsweredWorse) {
  Arguments asked = niah("told", "1");
  asked.insert(asked.end(), {"--record", "2"});
  const auto run = test::run_cli(asked);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("2 examples recorded"));
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path("told/recordings")))
    if (entry.path().extension() == ".h5") files.push_back(entry.path());
  ASSERT_EQ(files.size(), 2U);
  std::ranges::sort(files);
  const auto recording = recording::open_recording(files.front());
  const auto info = recording->info();
  std::istringstream lines(read("told/examples.jsonl"));
  std::int64_t n_compared = 0;
  for (std::string text; std::getline(lines, text);) {
    const nlohmann::json line = parse_json(text);
    const std::string policy = line["policy"];
    const int found = info->run_index(policy);
    ASSERT_GE(found, 0) << policy;
    const auto& plan = info->runs[found].plan;
    if (line["n_prompt"] != info->n_prompt() || line["budget"] != plan.budget ||
        files.front().stem() != "length-150-depth-" + line["depth"].dump().substr(0, 1) + "-sample-0")
      continue;
    EXPECT_THAT(info->runs[found].generated.text, ::testing::StartsWith(line["text"].get<std::string>()));
    ++n_compared;
    const nlohmann::json& first = line["anatomy"]["evidence"]["first"];
    if (first.is_null()) continue;
    const auto evicted = recording->trace(found, first["layer"], first["kv_head"])
                             .evicted_at[first["position"].get<std::size_t>()];
    EXPECT_EQ(evicted, first["block"]) << policy;
  }
  EXPECT_GE(n_compared, 2);
  const auto again = test::run_cli(asked);  // what is there is kept
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("2 examples recorded"));
  asked = niah("", "1");
  asked.resize(asked.size() - 2);
  asked.insert(asked.end(), {"--record", "2"});
  EXPECT_THAT(test::run_cli(asked).err, HasSubstr("--record: where to?"));
  // Those that it made go with results of other settings; a recording of its user's stays.
  std::ofstream(path("told/recordings/mine.h5")) << "mine";
  asked = niah("told", "2");
  asked.emplace_back("--force");
  ASSERT_EQ(test::run_cli(asked).status, 0);
  EXPECT_FALSE(std::filesystem::exists(files[0]));
  EXPECT_EQ(read("told/recordings/mine.h5"), "mine");
}

TEST_F(Eval, AKilledOneGoesOnAndComesToTheSame) {
  const auto whole = test::run_cli(niah("whole"));
  ASSERT_EQ(whole.status, 0) << whole.err;
  {
    test::CliProcess process(niah("killed"));
    for (int i = 0; i < 3000 && lines("killed/examples.jsonl").size() < 10; ++i) usleep(5'000);
    EXPECT_EQ(process.end_by(SIGKILL), 128 + SIGKILL);
  }
  const std::size_t n_done = lines("killed/examples.jsonl").size();
  ASSERT_GE(n_done, 10U);
  ASSERT_LT(n_done, 60U) << "it was over before it was killed";
  std::ofstream(path("killed/examples.jsonl"), std::ios::app) << "{\"id\":\"torn";
  const auto again = test::run_cli(niah("killed"));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(lines("killed/examples.jsonl"), lines("whole/examples.jsonl"));
  EXPECT_EQ(lines("whole/examples.jsonl").size(), 2U * 3 * 2 * 5);
  EXPECT_EQ(results("killed"), results("whole"));
  EXPECT_THAT(again.out, HasSubstr("60 results, "));
}

TEST_F(Eval, CellsAreTheMeansOfTheLines) {
  ASSERT_EQ(test::run_cli(niah("out")).status, 0);
  const auto report = results("out");
  EXPECT_EQ(report["cells"].size(), 2U * 3 * 5);
  EXPECT_EQ(report["totals"].size(), 5U);
  for (const auto& cell : report["cells"]) {
    double recall = 0, exact = 0;
    int n = 0;
    for (const std::string& line : lines("out/examples.jsonl")) {
      const auto row = parse_json(line);
      if (row["policy"] != cell["policy"] || row["budget_text"] != cell["budget_text"] ||
          row["length"] != cell["length"] || row["depth"] != cell["depth"])
        continue;
      recall += row["scores"]["recall"].get<double>();
      exact += row["scores"]["exact"].get<double>();
      EXPECT_LE(row["n_prompt"], row["length"]);
      const bool found = row["text"].get<std::string>().find(row["answers"][0]) != std::string::npos;
      EXPECT_EQ(row["scores"]["recall"], found ? 1.0 : 0.0);
      ++n;
    }
    ASSERT_EQ(n, 2);
    EXPECT_EQ(cell["n"], 2);
    EXPECT_EQ(cell["recall"], recall / n);
    EXPECT_EQ(cell["exact"], exact / n);
    EXPECT_LE(cell["exact_interval"][0], cell["exact"]);
    EXPECT_GE(cell["exact_interval"][1], cell["exact"]);
  }
}

TEST_F(Eval, AFolderHoldsResultsAndWhatIsMadeOfThem) {
  const auto held = [&](const std::string& out) {
    std::set<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path(out))) files.insert(entry.path());
    return files;
  };
  const auto expected = [&](const std::string& out, const std::string& task, bool compared) {
    const auto made = folder_files(path(out), task, compared);
    return std::set<std::filesystem::path>(made.begin(), made.end());
  };
  const std::string text = KEYSCOPE_SOURCE_DIR "/assets/demo_model/prompts/needle.txt";
  const std::vector<std::pair<std::string, Arguments>> tasks{
      {"niah", {"--length", "150"}},
      {"phonebook", {"--entries", "4"}},
      {"perplexity", {"--text", text, "--length", "64"}},
      {"longbench", {"--data", KEYSCOPE_SOURCE_DIR "/assets/eval/longbench.jsonl", "--max-tokens", "128"}}};
  for (const auto& [task, more] : tasks)
    for (const bool compared : {false, true}) {
      const std::string out = task + (compared ? "-compared" : "");
      Arguments arguments{"eval", task, "--model", test::kDemoModel, "--quiet", "--out", path(out)};
      arguments.insert(arguments.end(), more.begin(), more.end());
      if (compared) arguments.insert(arguments.end(), {"--policy", "sink", "--budget", "40"});
      const auto run = test::run_cli(arguments);
      ASSERT_EQ(run.status, 0) << run.err;
      EXPECT_EQ(held(out), expected(out, task, compared)) << out;
    }
}

TEST_F(Eval, CtrlCEndsItWith130AndKeepsWhatIsThere) {
  test::CliProcess process(niah("stopped", "50"));
  for (int i = 0; i < 3000 && lines("stopped/examples.jsonl").size() < 3; ++i) usleep(5'000);
  EXPECT_EQ(process.end_by(SIGINT), 130);
  EXPECT_GE(lines("stopped/examples.jsonl").size(), 3U);
}

TEST_F(Eval, ADryRunSaysWhatWouldBeRunAndLeavesNothing) {
  Arguments arguments = niah("out");
  arguments.push_back("--dry-run");
  const auto before = test::run_cli(arguments);
  ASSERT_EQ(before.status, 0) << before.err;
  EXPECT_THAT(before.out, HasSubstr("in 5 settings: 60 results, 0 of them from before; at most "));
  EXPECT_FALSE(std::filesystem::exists(path("out")));
  const auto run = test::run_cli(niah("out"));
  ASSERT_EQ(run.status, 0) << run.err;
  const auto cost = parse_json(read("out/cost.json"));
  const auto number = [&](std::string text) {
    std::erase(text, ',');
    return std::stoll(text);
  };
  const std::int64_t planned =
      number(before.out.substr(before.out.find("at most ", before.out.find("settings")) + 8));
  EXPECT_GE(planned, cost["tokens_asked"].get<std::int64_t>());
  EXPECT_LE(planned, cost["tokens_asked"].get<std::int64_t>() + 900) << "60 examples, 15 generated at most";
  EXPECT_THAT(test::run_cli(arguments).out, HasSubstr("60 of them from before; at most 0 tokens"));
}

TEST_F(Eval, OtherSettingsAreRefusedUnlessForced) {
  const Arguments small{"eval", "phonebook", "--model", test::kDemoModel, "--policy", "sink",      "--budget",
                        "64",   "--entries", "4,8",     "--quiet",        "--out",    path("book")};
  ASSERT_EQ(test::run_cli(small).status, 0);
  Arguments other = small;
  other.insert(other.end(), {"--seed", "3"});
  const auto refused = test::run_cli(other);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("seed is 0 there and 3 here"));
  other.push_back("--force");
  EXPECT_EQ(test::run_cli(other).status, 0);
}

TEST_F(Eval, AFolderOfEarlierRulesIsRefused) {
  const Arguments arguments{"eval", "phonebook", "--model", test::kDemoModel, "--entries",
                            "4",    "--quiet",   "--out",   path("book")};
  ASSERT_EQ(test::run_cli(arguments).status, 0);
  auto settings = parse_ordered_json(read("book/settings.json"));
  settings["format"] = 1;
  std::ofstream(path("book/settings.json")) << json_text(settings);
  const auto refused = test::run_cli(arguments);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("format is 1 there and 3 here"));
}

TEST_F(Eval, NamesThatAreNoUtf8AreRefusedBeforeAnythingIsWritten) {
  const std::string name = "caf\xE9.txt";
  std::ofstream(path(name)) << "Some words. ";
  const auto run = test::run_cli({"eval", "perplexity", "--model", test::kDemoModel, "--text", path(name),
                                  "--length", "64", "--quiet", "--out", path("out")});
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("is no UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

TEST_F(Eval, TheDemoModelLooksUpNumbersWithTheFullCache) {
  const auto run = test::run_cli({"eval", "phonebook", "--model", test::kDemoModel, "--entries", "8,32",
                                  "--samples", "10", "--quiet", "--json", "-"});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto report = parse_json(run.out);
  ASSERT_EQ(report["totals"].size(), 1U);
  EXPECT_GE(report["totals"][0]["exact"], 0.8);
  EXPECT_EQ(report["cells"][1]["entries"], 32);
}

TEST_F(Eval, BadRowsAreNamedOrSkippedAndCounted) {
  std::ofstream(path("names.txt")) << "Clara\nOtto\nClara\nHazel\nOtto\n";
  Arguments arguments{"eval",    "phonebook", "--model",         test::kDemoModel, "--entries", "3",
                      "--quiet", "--names",   path("names.txt"), "--json",         "-"};
  const auto refused = test::run_cli(arguments);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("names.txt, line 3: Clara is there twice"));
  EXPECT_THAT(refused.err, HasSubstr("2 rows are bad (lines 3, 5)"));
  arguments.push_back("--skip-bad");
  const auto run = test::run_cli(arguments);
  ASSERT_EQ(run.status, 0) << run.err;
  const auto report = parse_json(run.out);
  EXPECT_EQ(report["bad_rows"], 2);
  ASSERT_EQ(report["skipped_rows"].size(), 2U);
  EXPECT_THAT(report["skipped_rows"][1].get<std::string>(),
              HasSubstr("names.txt, line 5: Otto is there twice"));
}

TEST_F(Eval, WrongUsageIsSaidBeforeAnythingRuns) {
  const auto said = [&](Arguments more) {
    Arguments arguments{"eval", "niah", "--model", test::kDemoModel, "--policy", "sink"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto run = test::run_cli(arguments);
    EXPECT_EQ(run.status, 2) << run.err;
    return run.err;
  };
  EXPECT_THAT(said({"--length", "100000"}), HasSubstr("--length 100000: the model's context is"));
  EXPECT_THAT(said({"--length", "20"}), HasSubstr("the needles and the question alone are"));
  EXPECT_THAT(said({"--length", "200", "--depth", "101"}), HasSubstr("--depth: found 101"));
  EXPECT_THAT(said({"--length", "200", "--depth", ""}), HasSubstr("--depth"));
  EXPECT_THAT(said({"--length", "200", "--budget", "101%"}), HasSubstr("--budget: found '101%'"));
  EXPECT_THAT(said({"--length", "200", "--needle", "{key}"}), HasSubstr("--needle: there is no {value}"));
  EXPECT_THAT(said({"--length", "200", "--question", "\xE9 {key}"}), HasSubstr("--question: "));
  EXPECT_THAT(said({"--length", "200", "--policy", "sink"}), HasSubstr("--policy: sink is given twice"));
  EXPECT_THAT(said({"--length", "200", "--distractors", "500"}), HasSubstr("--distractors 500: there are"));
}

}  // namespace

}  // namespace keyscope::evaluation
