// Studies run by several workers, some of which are killed, against the commands that their jobs name.

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/sweep/study_plan.hpp"
#include "app/sweep/sweep_folder.hpp"
#include "base/files.hpp"
#include "capture/recording/recording.hpp"
#include "tests/app/sweep/planned_cells.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/scratch_folder.hpp"

namespace keyscope::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SweepCommand : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name).string(); }

  void write_study(const std::string& jobs, const std::string& models = "") const {
    std::ofstream(path("study.json")) << fmt::format(R"({{"models": ["{}"], "seeds": [0, 3], "jobs": [{}]}})",
                                                     models.empty() ? kDemoModel : models, jobs);
  }
  CliResult plan() const {
    return run_cli({"sweep", "plan", path("study.json"), "--out", path("study"), "--quiet"});
  }
  CliResult run(std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"sweep", "run", path("study"), "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  }
  json status() const { return json::parse(run_cli({"sweep", "status", path("study"), "--json", "-"}).out); }

  // The results of a job and a seed, in the plan's order.
  std::string lines(int job, int seed) const {
    const sweep::SweepFolder folder(path("study"));
    std::string text;
    for (const sweep::Cell& cell : cells_of(folder, folder.read()))
      if (cell.job == job && cell.seed == seed) text += sweep::read_result(folder, cell.id).lines;
    return text;
  }

  ScratchFolder folder_;
};

constexpr const char* kNeedles = R"({"command": "eval niah", "policy": ["keydiff", "sink"], "budget": "25%",
    "block": 32, "length": [160, 256], "depth": [0, 100], "samples": 2})";

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::ranges::sort(lines);
  return lines;
}

TEST_F(SweepCommand, APlanIsNoFile) {
  write_study(kNeedles);
  std::ofstream(path("study")) << "mine";
  EXPECT_THAT(plan().err, HasSubstr("found a file; expected a folder for the study"));
  EXPECT_EQ(read_file(path("study")), "mine");
}

TEST_F(SweepCommand, GivesWhatTheCommandsGive) {
  const std::string prompts = kDemoModel + "/prompts/passages.jsonl";
  write_study(kNeedles +
              fmt::format(R"(, {{"command": "validate", "prompts": "{0}", "policy": "sink", "max-tokens": 96,
      "block": 32}}, {{"command": "capture", "prompts": "{0}", "max-tokens": 80, "policy": ["none", "keydiff"],
      "budget": [16, "25%"], "block": 32}})",
                          prompts));
  const CliResult planned = plan();
  ASSERT_EQ(planned.status, 0) << planned.err;
  ASSERT_EQ(run({"--local", "2"}).status, 0);
  const json found = status();
  EXPECT_EQ(found["done"], found["planned"]);
  EXPECT_EQ(found["failed"], 0);

  const CliResult eval =
      run_cli({"eval",      "niah", "--model", kDemoModel, "--policy", "keydiff",    "--policy", "sink",
               "--budget",  "25%",  "--block", "32",       "--length", "160,256",    "--depth",  "0,100",
               "--samples", "2",    "--seed",  "3",        "--out",    path("eval"), "--quiet"});
  ASSERT_EQ(eval.status, 0) << eval.err;
  EXPECT_EQ(sorted_lines(lines(0, 1)), sorted_lines(read_file(folder_.file("eval") / "examples.jsonl")));

  const CliResult validate =
      run_cli({"validate", "--model", kDemoModel, "--prompts", prompts, "--policy", "sink", "--max-tokens",
               "96", "--block", "32", "--seed", "3", "--out", path("validate"), "--quiet"});
  ASSERT_EQ(validate.status, 0) << validate.err;
  std::vector<json> records, expected;
  for (const std::string& line : sorted_lines(lines(1, 1))) records.push_back(json::parse(line));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.file("validate") / "prompts"))
    expected.push_back(json::parse(read_file(entry.path())));
  std::ranges::sort(records);
  std::ranges::sort(expected);
  EXPECT_EQ(records, expected);

  const sweep::SweepFolder folder(path("study"));
  int n_recordings = 0;
  for (const sweep::Cell& cell : cells_of(folder, folder.read())) {
    if (cell.job != 2) continue;
    const auto recording = recording::open_recording(folder.recording(cell.id).string());
    EXPECT_TRUE(recording->info()->complete);
    EXPECT_EQ(recording->info()->runs.front().plan.policy, json::parse(cell.about)["policy"]);
    ++n_recordings;
  }
  const auto n_prompts = std::ssize(sorted_lines(read_file(prompts)));
  EXPECT_EQ(n_recordings, 2 * 3 * n_prompts) << "seeds; none, and keydiff at two budgets";
}

// All files of a folder, by their names in it.
std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder).string()] = read_file(entry.path());
  return files;
}

// Two folders of results hold the same bytes, but for what says how long something took.
void expect_same_files(const std::filesystem::path& expected, const std::filesystem::path& found) {
  auto a = files_of(expected), b = files_of(found);
  a.erase("cost.json"), b.erase("cost.json");
  EXPECT_GT(a.size(), 2U);
  for (const auto& [name, bytes] : a) EXPECT_TRUE(b.contains(name) && b[name] == bytes) << name;
  EXPECT_EQ(a.size(), b.size());
}

class MergedStudy : public SweepCommand {
 protected:
  void merge_study(const std::string& jobs) {
    write_study(jobs);
    const CliResult planned = plan();
    ASSERT_EQ(planned.status, 0) << planned.err;
    ASSERT_EQ(run({"--local", "2"}).status, 0);
    const CliResult merged =
        run_cli({"sweep", "merge", path("study"), "--out", path("merged.h5"), "--quiet"});
    ASSERT_EQ(merged.status, 0) << merged.err;
  }
  // But for what is measured by the clock, and for who asked for what when.
  void expect_as_captured(const std::string& name) const {
    const CliResult compared = run_cli({"compare", path("one.h5"), path(name), "--quiet"});
    EXPECT_EQ(compared.status, 0) << compared.out << compared.err;
    const auto expected = recording::open_recording(path("one.h5")),
               found = recording::open_recording(path(name));
    for (int run = 0; run < 3; ++run) {
      EXPECT_EQ(found->keys(run, 2, 1), expected->keys(run, 2, 1));
      EXPECT_EQ(found->attention(run, 3, 5), expected->attention(run, 3, 5));
      EXPECT_EQ(found->logits(run), expected->logits(run));
      EXPECT_EQ(found->trace(run, 1, 0).evicted_at, expected->trace(run, 1, 0).evicted_at);
    }
  }
  void expect_from_study_as_alone(std::vector<std::string> command, const std::string& from_says) {
    command.insert(command.end(), {"--model", kDemoModel, "--seed", "3", "--quiet"});
    std::vector<std::string> alone = command, from = command;
    alone.insert(alone.end(), {"--out", path("alone")});
    from.insert(from.end(), {"--out", path("from"), "--from", path("merged.h5")});
    const CliResult first = run_cli(alone);
    ASSERT_EQ(first.status, 0) << first.err;
    const CliResult second = run_cli(from);
    ASSERT_EQ(second.status, 0) << second.err;
    EXPECT_THAT(second.out, HasSubstr(from_says));
    expect_same_files(folder_.file("alone"), folder_.file("from"));
  }
};

TEST_F(MergedStudy, GivesEvalTheBytesOfOneRun) {
  merge_study(kNeedles);
  expect_from_study_as_alone({"eval", "niah", "--policy", "keydiff", "--policy", "sink", "--budget", "25%",
                              "--block", "32", "--length", "160,256", "--depth", "0,100", "--samples", "2"},
                             "merged.h5: 24 results");
}

TEST_F(MergedStudy, GivesValidateTheBytesOfOneRun) {
  const std::string prompts = kDemoModel + "/prompts/passages.jsonl";
  merge_study(fmt::format(
      R"({{"command": "validate", "prompts": "{}", "policy": "sink", "max-tokens": 96, "block": 32}})",
      prompts));
  expect_from_study_as_alone(
      {"validate", "--prompts", prompts, "--policy", "sink", "--max-tokens", "96", "--block", "32"},
      "merged.h5: 12 results");
}

TEST_F(MergedStudy, GivesReportTheBytesOfOneRun) {
  merge_study(R"({"command": "report", "policies": "keydiff", "budgets": "50%", "length": 200, "examples": 6,
      "block": 64, "diagnose": 2, "tasks": ["niah", "phonebook"]})");
  expect_from_study_as_alone(
      {"report", "--policies", "keydiff", "--budgets", "50%", "--length", "200", "--examples", "6", "--block",
       "64", "--diagnose", "2", "--tasks", "niah,phonebook", "--repeat", "0"},
      "results.");
}

TEST_F(MergedStudy, OtherSettingsAreComputedHereAndSaidSo) {
  merge_study(kNeedles);
  const CliResult other =
      run_cli({"eval",      "niah",    "--model", kDemoModel, "--policy",    "keydiff", "--budget",
               "30%",       "--block", "64",      "--length", "160",         "--depth", "0",
               "--samples", "1",       "--quiet", "--out",    path("other"), "--from",  path("merged.h5")});
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("no result of these settings"));
  const CliResult nowhere = run_cli(
      {"eval", "niah", "--model", kDemoModel, "--length", "160", "--from", path("merged.h5"), "--quiet"});
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("--from: needs --out"));
}

TEST_F(MergedStudy, HoldsRecordingsAsOneCaptureWouldHaveGivenThem) {
  std::ofstream(path("prompts.jsonl"))
      << R"({"ids": [1, 80, 200, 31, 7, 9, 301, 44, 5, 6, 17, 18, 19, 20, 21, 22]})" << '\n';
  merge_study(R"({"command": "capture", "prompts": "prompts.jsonl", "policy": ["none", "keydiff", "sink"],
      "budget": 6, "block": 4, "generate": 3, "record": "keys,queries,values,attention,logits"})");
  std::ofstream(path("ids.json")) << "[1, 80, 200, 31, 7, 9, 301, 44, 5, 6, 17, 18, 19, 20, 21, 22]";
  const CliResult captured = run_cli({"capture",
                                      "--model",
                                      kDemoModel,
                                      "--prompt-ids",
                                      path("ids.json"),
                                      "--policy",
                                      "none",
                                      "--policy",
                                      "keydiff",
                                      "--policy",
                                      "sink",
                                      "--budget",
                                      "6",
                                      "--block",
                                      "4",
                                      "--generate",
                                      "3",
                                      "--seed",
                                      "0",
                                      "--record",
                                      "keys,queries,values,attention,logits",
                                      "--out",
                                      path("one.h5"),
                                      "--quiet"});
  ASSERT_EQ(captured.status, 0) << captured.err;
  const CliResult copied =
      run_cli({"sweep", "merge", path("study"), "--out", path("copied.h5"), "--copy", "--quiet"});
  ASSERT_EQ(copied.status, 0) << copied.err;
  EXPECT_THAT(recording::recording_entries(path("merged.h5")), ::testing::ElementsAre("entry", "entry_2"));
  for (const char* name : {"merged.h5", "copied.h5", "merged.h5::entry"}) expect_as_captured(name);
  const auto info = recording::open_recording(path("merged.h5"))->info();
  EXPECT_EQ(json::parse(info->provenance.configuration)["policies"].size(), 3U);
  EXPECT_EQ(recording::open_recording(path("merged.h5::entry_2"))->info()->provenance.seed, 3);
  const CliResult analyzed = run_cli({"analyze", path("merged.h5::entry_2"), "--no-bounds", "--quiet"});
  EXPECT_EQ(analyzed.status, 0) << analyzed.err;

  // With the cells' recordings gone, the copied one stands alone; the other says what is missing.
  std::filesystem::remove_all(folder_.file("study"));
  expect_as_captured("copied.h5");
  const CliResult orphan = run_cli({"analyze", path("merged.h5"), "--no-bounds", "--quiet"});
  EXPECT_EQ(orphan.status, 1);
  EXPECT_THAT(orphan.err, AllOf(HasSubstr("merged.h5: /entry/runs/"), HasSubstr("no such file"),
                                HasSubstr("merge the study again")));
}

// Programs of Slurm that note what they were asked, and answer as Slurm does.
class SubmitCommand : public SweepCommand {
 protected:
  SubmitCommand() {
    std::filesystem::create_directory(folder_.file("bin"));
    program("sbatch", "cp \"${@: -1}\" " + path("submitted") + "; echo '41;cluster'");
    program("squeue", "[ -e " + path("queued") + " ] && echo 41; true");
    setenv("PATH", (path("bin") + ":" + path_).c_str(), 1);
    write_study(kNeedles);
    plan();
  }
  ~SubmitCommand() override { setenv("PATH", path_.c_str(), 1); }

  void program(const std::string& name, const std::string& does) const {
    const auto file = folder_.file("bin") / name;
    std::ofstream(file) << "#!/bin/bash\n" << does << '\n';
    std::filesystem::permissions(file, std::filesystem::perms::all);
  }
  CliResult submit(std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"sweep", "submit", path("study"), "--slurm"};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  }

  std::string path_ = std::getenv("PATH");
};

TEST_F(SubmitCommand, SubmitsWhatIsMissingOnce) {
  const CliResult dry = submit({"--dry-run", "--partition", "long", "--time", "1:00"});
  EXPECT_THAT(dry.out, AllOf(HasSubstr("#SBATCH --partition=long\n"), HasSubstr("#SBATCH --time=1:00\n"),
                             ::testing::Not(HasSubstr("--account")), ::testing::Not(HasSubstr("{"))));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("submitted")));
  const CliResult first = submit({"--tasks", "3"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("Submitted job 41: 3 tasks"));
  EXPECT_THAT(read_file(folder_.file("submitted")),
              AllOf(HasSubstr("--array=1-3\n"), HasSubstr("sweep run")));
  std::ofstream(path("queued")) << "";
  std::filesystem::remove(folder_.file("submitted"));
  EXPECT_THAT(submit().out, HasSubstr("Job 41 is not over"));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("submitted")));
  std::filesystem::remove(folder_.file("queued"));
  EXPECT_THAT(submit({"--tasks", "100"}).out, HasSubstr("in 4 batches")) << "no more tasks than batches";
  EXPECT_THAT(read_file(folder_.file("submitted")), HasSubstr("--array=1-4\n"));
  ASSERT_EQ(run().status, 0);
  EXPECT_THAT(submit().out, HasSubstr("Nothing is missing"));
}

TEST_F(SubmitCommand, FollowsTheUsersTemplate) {
  submit({"--dry-run"});
  const auto own = folder_.file("study") / "sbatch.template";
  std::ofstream(own) << "#!/bin/sh\n# mine, for {tasks} tasks\n{program} sweep run {folder}\n";
  EXPECT_THAT(submit({"--dry-run", "--tasks", "2"}).out, HasSubstr("# mine, for 2 tasks\n"));
  ASSERT_EQ(plan().status, 0);
  EXPECT_THAT(submit({"--dry-run", "--tasks", "2"}).out, HasSubstr("# mine")) << "planning anew leaves it";
  std::ofstream(own) << "#!/bin/sh\n# {partition} {other} {\n";
  EXPECT_THAT(submit({"--dry-run", "--partition", "{folder}{account}"}).out,
              HasSubstr("# {folder}{account} {other} {\n"));
  std::ofstream(own) << "no script\n";
  EXPECT_THAT(submit().err, AllOf(HasSubstr("sbatch.template"), HasSubstr("#!")));
}

TEST_F(SubmitCommand, ForgetsFailuresOnceAJobIsSubmitted) {
  const auto failure = folder_.file("study") / "failures" / (std::string(32, 'a') + ".json");
  std::ofstream(failure) << "{}";
  program("sbatch", "exit 1");
  EXPECT_EQ(submit({"--retry-failed"}).status, 1);
  EXPECT_TRUE(std::filesystem::exists(failure));
  program("sbatch", "echo 41");
  EXPECT_EQ(submit({"--retry-failed"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(failure));
}

TEST_F(SubmitCommand, NamesAJobThatItCannotNote) {
  const std::string jobs = path("study/slurm/jobs");
  std::filesystem::create_directories(jobs);
  EXPECT_THAT(submit({"--more"}).err, HasSubstr("slurm/jobs"));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("submitted"))) << "what cannot be noted is not submitted";
  std::filesystem::remove(jobs);
  program("sbatch", "rm " + jobs + "; mkdir " + jobs + "; echo 41");
  const CliResult lost = submit();
  EXPECT_EQ(lost.status, 1);
  EXPECT_THAT(lost.err, AllOf(HasSubstr("job 41 is submitted all the same"), HasSubstr("scancel 41")));
  std::filesystem::remove(jobs);
  std::ofstream(jobs) << "40";  // torn
  program("sbatch", "echo 41");
  EXPECT_EQ(submit().status, 0);
  EXPECT_EQ(read_file(jobs), "40\n41\n");
}

// Python reads the study before it has its name, so that both files are there or neither.
TEST_F(SubmitCommand, AMergeWritesBothOfItsFilesOrNone) {
  ASSERT_EQ(run().status, 0);
  const char* const before = std::getenv("KEYSCOPE_PYTHON");
  const std::string python = before == nullptr ? "" : before;
  setenv("KEYSCOPE_PYTHON", path("bin/python").c_str(), 1);
  const auto merge = [&] {
    return run_cli({"sweep", "merge", path("study"), "--out", path("m.h5"), "--parquet", path("m.parquet"),
                    "--csv", path("m.csv"), "--quiet"});
  };
  program("python", "exit 3");
  EXPECT_THAT(merge().err, AllOf(HasSubstr("ended with 3"), HasSubstr("nothing is written")));
  for (const char* name : {"m.h5", "m.parquet", "m.csv"}) EXPECT_FALSE(std::filesystem::exists(path(name)));
  program("python", "[ ! -e " + path("m.h5") + " ] && cp \"$3\" \"$4\"");
  EXPECT_EQ(merge().status, 0);
  EXPECT_EQ(read_file(path("m.parquet")), read_file(path("m.h5")));
  EXPECT_TRUE(std::filesystem::exists(path("m.csv")));
  python.empty() ? unsetenv("KEYSCOPE_PYTHON") : setenv("KEYSCOPE_PYTHON", python.c_str(), 1);
}

TEST_F(SubmitCommand, SaysThatSlurmIsNotThereOrRefuses) {
  program("sbatch", "echo 'sbatch: error: invalid partition' >&2; exit 1");
  EXPECT_THAT(submit().err, AllOf(HasSubstr("invalid partition"), HasSubstr("sbatch refused")));
  std::filesystem::remove(folder_.file("bin") / "sbatch");
  std::filesystem::create_symlink("/usr/bin/env", folder_.file("bin") / "env");
  setenv("PATH", path("bin").c_str(), 1);  // where nothing else is
  EXPECT_THAT(submit().err, HasSubstr("sbatch: cannot be started"));
}

TEST_F(SweepCommand, LosesAndRepeatsNothingWhoeverIsKilled) {
  std::string more = kNeedles;
  more.replace(more.find(R"("samples": 2)"), 12, R"("samples": 12)");
  write_study(more);
  ASSERT_EQ(plan().status, 0);
  for (int round = 0; round < 4; ++round) {
    CliProcess one({"sweep", "run", path("study"), "--quiet", "--shard", "1/2"}, folder_.path());
    CliProcess other({"sweep", "run", path("study"), "--quiet", "--shard", "2/2"}, folder_.path());
    const auto n_before = status()["done"].get<int>();
    for (int i = 0; i < 300 && status()["done"].get<int>() < n_before + 5; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    one.end_by(SIGKILL);
    other.end_by(round % 2 == 0 ? SIGKILL : SIGTERM);
    EXPECT_LT(status()["done"], status()["planned"]) << "they were killed too late";
  }
  const CliResult last = run();
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_EQ(status()["done"], status()["planned"]);
  const std::string interrupted = lines(0, 0) + lines(0, 1);
  std::filesystem::rename(folder_.file("study"), folder_.file("earlier"));
  ASSERT_EQ(plan().status, 0);
  ASSERT_EQ(run().status, 0);
  EXPECT_EQ(lines(0, 0) + lines(0, 1), interrupted);
}

TEST_F(SweepCommand, KeepsWhatAChangedStudyStillPlans) {
  write_study(kNeedles);
  ASSERT_EQ(plan().status, 0);
  ASSERT_EQ(run().status, 0);
  const auto n_before = status()["done"].get<int>();
  std::string more = kNeedles;
  more.replace(more.find(R"("sink")"), 6, R"("sink", "random")");
  write_study(more);
  const CliResult planned = plan();
  ASSERT_EQ(planned.status, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr(fmt::format("{} of them finished", n_before)));
  ASSERT_EQ(run().status, 0);
  EXPECT_EQ(status()["planned"], status()["done"]);
  EXPECT_EQ(status()["planned"], n_before / 3 * 4) << "none, keydiff, sink, and now random";
  write_study(R"({"command": "eval niah", "length": 160, "samples": 1})");
  ASSERT_EQ(plan().status, 0);
  EXPECT_GT(status()["unplanned_results"].get<int>(), 0);
}

TEST_F(SweepCommand, SaysWhatIsWrongWithAStudy) {
  const auto refusal = [&] {
    const CliResult result = plan();
    EXPECT_NE(result.status, 0);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder_.file("study")));
    return result.err;
  };
  write_study(kNeedles, "no/such-model");
  EXPECT_THAT(refusal(), HasSubstr("no/such-model"));
  write_study(R"({"command": "eval nothing"})");
  EXPECT_THAT(refusal(), HasSubstr("job 1 (eval nothing)"));
  write_study(R"({"command": "bench"})");
  EXPECT_THAT(refusal(), HasSubstr("expected capture, report, validate or eval TASK"));
  write_study(R"({"command": "validate", "prompts": "absent.jsonl"})");
  EXPECT_THAT(refusal(), HasSubstr("absent.jsonl"));
  write_study(R"({"command": "capture", "policy": "keydiff", "prompts": "absent.jsonl", "lenght": 3})");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("job 1 (capture)"), HasSubstr("lenght")));
}

TEST_F(SweepCommand, SaysWhyCellsFailedAndTriesThemAgainWhenAsked) {
  std::filesystem::copy(kDemoModel, folder_.file("model"), std::filesystem::copy_options::recursive);
  write_study(kNeedles, path("model"));
  ASSERT_EQ(plan().status, 0);
  std::filesystem::rename(folder_.file("model"), folder_.file("gone"));
  const CliResult failed = run();
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, HasSubstr("model"));
  const json found = status();
  EXPECT_GT(found["failed"].get<int>(), 0);
  EXPECT_THAT(found["failures"][0]["error"].get<std::string>(), HasSubstr("model"));
  std::filesystem::rename(folder_.file("gone"), folder_.file("model"));
  EXPECT_EQ(run({"--retry-failed"}).status, 0);
  EXPECT_EQ(status()["failed"], 0);
  EXPECT_EQ(status()["done"], status()["planned"]);
}

TEST_F(SweepCommand, EndsByAnInterruptAndGoesOn) {
  write_study(kNeedles);
  ASSERT_EQ(plan().status, 0);
  CliProcess process({"sweep", "run", path("study"), "--local", "2", "--quiet"}, folder_.path());
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_EQ(process.end_by(SIGINT), 130);
  EXPECT_EQ(status()["running"], 0) << "what was claimed was given up";
  EXPECT_EQ(run().status, 0);
}

}  // namespace
}  // namespace keyscope::test
