#include "app/commands/sweep.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/sweep/status.hpp"
#include "app/sweep/study.hpp"
#include "app/sweep/study_plan.hpp"
#include "app/sweep/sweep_folder.hpp"
#include "app/sweep/worker.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/program.hpp"
#include "base/text.hpp"

namespace keyscope::commands {

namespace {

namespace fs = std::filesystem;

struct SweepArguments {
  std::string study, folder, shard, json;
  int threads = 0, n_local = 0;
  double lease_seconds = 120;
  bool retry_failed = false, dry_run = false, force = false, quiet = false;
};

// Paths in a study are those of its file's folder, wherever the command is called.
void go_to(const sweep::Study& study) {
  std::error_code error;
  fs::current_path(study.folder, error);
  if (error)
    throw FileError(fmt::format("{}: the study's folder, from which its paths start, is not there: {}",
                                study.folder.string(), error.message()));
}

// What a plan's cells come to.
class PlanSums {
 public:
  void add(const sweep::Cell& cell) {
    n_batches_ += cell.batch == last_batch_ ? 0 : 1;
    last_batch_ = cell.batch;
    most_bytes_ = std::max(most_bytes_, cell.memory_bytes);
    if (ids_.insert(*sweep::Digest::parse(cell.id)).second) seconds_ += cell.seconds;
  }

  void print(const std::string& study, const sweep::DigestSet& finished) const {
    const auto n_finished =
        std::ranges::count_if(ids_, [&](const sweep::Digest& id) { return finished.contains(id); });
    say("{}: {} cells in {} batches, {} of them finished; estimated {} on one worker such as this one, {} of "
        "memory each.\n",
        study, format_count(std::ssize(ids_)), format_count(n_batches_), format_count(n_finished),
        duration_text(seconds_), bytes_text(most_bytes_));
  }

 private:
  sweep::DigestSet ids_;  // a cell may be in two jobs, and is run once
  std::string last_batch_;
  std::int64_t n_batches_ = 0, most_bytes_ = 0;
  double seconds_ = 0;
};

void run_plan(const SweepArguments& arguments) {
  const sweep::SweepFolder folder(full_path(arguments.folder));
  const sweep::Study study = sweep::read_study(arguments.study);
  go_to(study);
  const auto maker = make_job_maker(0, arguments.quiet);
  PlanSums sums;
  sweep::DigestSet finished;
  Progress progress("jobs", arguments.quiet);
  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  const auto plan = [&](const sweep::EachCell& each) {
    const auto report = [&](std::int64_t done, std::int64_t total) {
      if (cancelled) throw Cancelled("interrupted; nothing was planned");
      progress.update(done, total, "planned");
    };
    sweep::Plan made = sweep::plan_study(study, *maker, report, [&](const sweep::Cell& cell) {
      sums.add(cell);
      each(cell);
    });
    made.program_version = KEYSCOPE_VERSION;
    finished = folder.finished();  // while the plan has no name yet: it may fail
    return made;
  };
  if (arguments.dry_run)
    plan([](const sweep::Cell&) {});
  else
    folder.write(plan);
  progress.clear();
  sums.print(study.name, finished);
}

sweep::Share chosen_share(const SweepArguments& arguments) {
  if (!arguments.shard.empty()) return sweep::parse_share(arguments.shard);
  return sweep::share_of_launcher([](const char* name) { return std::getenv(name); })
      .value_or(sweep::Share{});
}

void print_failures(const sweep::Status& status) {
  for (const sweep::Failure& failure : status.failures) say("failed  {}  {}\n", failure.cell, failure.error);
  if (status.n_failed > std::ssize(status.failures))
    say("… and {} more\n", format_count(status.n_failed - std::ssize(status.failures)));
}

void print_status(const sweep::Status& status) {
  say("{} cells: {} done, {} running on {}, {} failed, {} left\n", format_count(status.n_planned),
      format_count(status.n_done), format_count(status.n_running), counted(status.n_workers, "worker"),
      format_count(status.n_failed),
      format_count(status.n_planned - status.n_done - status.n_failed - status.n_running));
  if (status.n_unplanned > 0)
    say("{} more results of cells that are no longer planned\n", format_count(status.n_unplanned));
  if (status.seconds_left_one > 0)
    say("{} left for one worker{}, {}\n", duration_text(status.seconds_left_one),
        status.n_workers > 1
            ? fmt::format(", {} for {}", duration_text(*status.seconds_left()), status.n_workers)
            : "",
        status.measured ? "by what finished cells took" : "as estimated");
  print_failures(status);
}

// One worker, here.
void run_one(const SweepArguments& arguments, const sweep::SweepFolder& folder, const sweep::Plan& plan) {
  const auto maker = make_job_maker(arguments.threads, arguments.quiet);
  std::atomic<bool> cancelled = false;
  std::mutex mutex;
  sweep::Job* running = nullptr;
  OnInterrupt on_interrupt([&] {
    cancelled = true;
    const std::lock_guard lock(mutex);
    if (running != nullptr) running->cancel();
  });
  Progress progress("tokens", arguments.quiet);
  const sweep::WorkerWatch watch{cancelled,
                                 [&](sweep::Job* job) {
                                   const std::lock_guard lock(mutex);
                                   running = job;
                                   if (job != nullptr && cancelled) job->cancel();
                                 },
                                 [&](std::int64_t done, std::int64_t total, const std::string& label) {
                                   progress.update(done, total, label);
                                 }};
  const sweep::WorkerOptions options{
      chosen_share(arguments),
      std::chrono::milliseconds(static_cast<std::int64_t>(1000 * arguments.lease_seconds))};
  const sweep::WorkerOutcome outcome = sweep::run_worker(folder, plan, *maker, options, watch);
  progress.clear();
  say("{} done and {} failed here; {} left to other workers\n", counted(outcome.n_done, "cell"),
      outcome.n_failed, outcome.n_left);
  if (outcome.n_failed > 0)
    throw Error(
        fmt::format("{} failed; `keyscope sweep status` says why", counted(outcome.n_failed, "cell")));
}

// The command line of a worker of this very program.
std::vector<std::string> worker_words(const fs::path& folder, int index, int count, int threads,
                                      double lease_seconds) {
  return {program_path().string(),
          "sweep",
          "run",
          folder.string(),
          "--quiet",
          fmt::format("--shard={}/{}", index + 1, count),
          fmt::format("--threads={}", threads),
          fmt::format("--lease={}", lease_seconds)};
}

// Several workers here. Who is killed is replaced, as long as cells get finished.
void run_local(const SweepArguments& arguments, const sweep::SweepFolder& folder, const sweep::Plan& plan) {
  const int n = arguments.n_local;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = arguments.threads > 0 ? arguments.threads : std::max(1, cores / n);
  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  Progress progress("cells", arguments.quiet);
  sweep::CellCount cells(folder, plan);
  std::vector<std::unique_ptr<ChildProgram>> workers;
  const auto start = [&](int index) {
    return std::make_unique<ChildProgram>(
        worker_words(folder.path(), index, n, threads, arguments.lease_seconds),
        ChildProgram::Output::kDropped);
  };
  workers.reserve(n);
  for (int i = 0; i < n; ++i) workers.push_back(start(i));
  std::int64_t done_at_restart = -1;
  for (bool going = true; going && !cancelled;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    cells.update();
    progress.update(cells.n_over(), cells.n_planned(), folder.path().filename().string());
    going = false;
    for (int i = 0; i < n; ++i) {
      const bool ended = workers[i]->has_ended();
      const bool replace = ended && workers[i]->was_killed() && cells.n_over() < cells.n_planned() &&
                           cells.n_done() > done_at_restart;
      if (replace) {
        done_at_restart = cells.n_done();
        workers[i] = start(i);
      }
      going = going || !ended || replace;
    }
  }
  workers.clear();
  progress.clear();
  if (cancelled) throw Cancelled("interrupted; the same command goes on");
  const sweep::Status status = sweep::status_of(folder, plan);
  print_status(status);
  if (status.n_done < status.n_planned)
    throw Error(fmt::format("{} of {} cells are not finished", format_count(status.n_planned - status.n_done),
                            format_count(status.n_planned)));
}

void run_run(const SweepArguments& arguments) {
  const sweep::SweepFolder folder(full_path(arguments.folder));
  const sweep::Plan plan = folder.read();
  if (plan.program_version != KEYSCOPE_VERSION)
    throw FileError(fmt::format("{}: was planned by keyscope {}, and this is {}; plan the study again",
                                folder.path().string(), plan.program_version, KEYSCOPE_VERSION));
  go_to(plan.study);
  if (arguments.retry_failed) folder.forget_failures();
  if (arguments.n_local > 0) return run_local(arguments, folder, plan);
  run_one(arguments, folder, plan);
}

void run_status(const SweepArguments& arguments) {
  const JsonTarget json{arguments.json, arguments.force};
  const sweep::SweepFolder folder(full_path(arguments.folder));
  require_writable(json);
  const sweep::Status status = sweep::status_of(folder, folder.read());
  if (json.given()) write_json(json, sweep::status_json(status));
  if (!json.is_stdout()) print_status(status);
}

CLI::App* add_part(CLI::App& sweep, const char* name, const char* says, SweepArguments& arguments) {
  CLI::App* command = sweep.add_subcommand(name, says);
  if (std::string(name) == "plan") {
    command->add_option("STUDY", arguments.study, "The study: models, seeds and jobs, as JSON")->required();
    command->add_option("--out", arguments.folder, "The folder for plan, claims and results")->required();
  } else {
    command->add_option("DIR", arguments.folder, "A folder that `sweep plan` made")->required();
  }
  return command;
}

void add_plan(CLI::App& sweep) {
  auto arguments = std::make_shared<SweepArguments>();
  CLI::App* command =
      add_part(sweep, "plan", "What a study comes to: its cells, hours and bytes", *arguments);
  command->add_flag("--dry-run", arguments->dry_run, "Say so and write nothing");
  add_quiet(*command, arguments->quiet);
  command->footer("Example:\n  keyscope sweep plan assets/studies/needles.json --out study");
  command->callback([arguments] { run_plan(*arguments); });
}

void add_run(CLI::App& sweep) {
  auto arguments = std::make_shared<SweepArguments>();
  CLI::App* command =
      add_part(sweep, "run",
               "Run what is missing of a study, beside any number of other workers on any number of machines",
               *arguments);
  CLI::Option* shard =
      command->add_option("--shard", arguments->shard,
                          "I/N: begin with this part (default: what Slurm, Open MPI or MPICH says, or all)");
  command->add_option("--local", arguments->n_local, "Run N workers on this machine")
      ->check(one_or_more())
      ->excludes(shard);
  command
      ->add_option("--threads", arguments->threads,
                   "Threads of a worker (default: all, divided among --local)")
      ->check(one_or_more());
  command
      ->add_option("--lease", arguments->lease_seconds,
                   "Seconds after which a worker that shows no sign of life has lost its cells")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  command->add_flag("--retry-failed", arguments->retry_failed, "Also run the cells that failed before");
  add_quiet(*command, arguments->quiet);
  command->footer("Example:\n  keyscope sweep run study --local 2");
  command->callback([arguments] { run_run(*arguments); });
}

void add_status(CLI::App& sweep) {
  auto arguments = std::make_shared<SweepArguments>();
  CLI::App* command = add_part(sweep, "status", "How far a study is, from its folder alone", *arguments);
  command->add_option("--json", arguments->json, "All numbers as JSON into a file; - is stdout");
  command->add_flag("--force", arguments->force, "Replace an existing --json");
  command->footer("Example:\n  keyscope sweep status study");
  command->callback([arguments] { run_status(*arguments); });
}

}  // namespace

void add_sweep(CLI::App& app) {
  CLI::App* sweep = app.add_subcommand(
      "sweep", "A study of many cells: models, prompts, policies, budgets and seeds, on one machine or many");
  add_plan(*sweep);
  add_run(*sweep);
  add_sweep_submit(*sweep);
  add_status(*sweep);
  add_sweep_merge(*sweep);
  sweep->require_subcommand(1);
}

}  // namespace keyscope::commands
