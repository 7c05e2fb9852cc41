#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/commands/sweep.hpp"
#include "app/sweep/study_plan.hpp"
#include "app/sweep/sweep_folder.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "base/text.hpp"

namespace keyscope::commands {

namespace {

namespace fs = std::filesystem;

struct SubmitArguments {
  std::string folder, template_file, partition, account, gres, time, memory;
  int tasks = 0, cpus = 0;
  bool slurm = false, dry_run = false, more = false, retry_failed = false;
};

// What a study's folder has when nobody has put another template there. {…} are filled in; lines whose value
// is empty are left out.
constexpr const char* kTemplate = R"(#!/bin/bash
# Jobs of `keyscope sweep submit`. This file is yours: what is in braces is filled in with every call.
#SBATCH --job-name={name}
#SBATCH --array=1-{tasks}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={cpus}
#SBATCH --mem={memory}
#SBATCH --time={time}
#SBATCH --partition={partition}
#SBATCH --account={account}
#SBATCH --gres={gres}
#SBATCH --requeue
#SBATCH --output={folder}/slurm/%A_%a.out

exec {program} sweep run {folder} --threads {cpus} --quiet
)";

// What is still to be done, and what it takes by the plan's estimates.
struct Missing {
  std::int64_t n_cells = 0, n_batches = 0, memory_bytes = 0;
  double seconds = 0;
};

Missing missing_of(const sweep::SweepFolder& folder, const sweep::Plan& plan, bool retry_failed) {
  sweep::DigestSet over = folder.finished();
  if (!retry_failed) over.merge(folder.failed());
  Missing missing;
  sweep::DigestSet batches;
  for (sweep::CellReader cells(folder, plan); const auto cell = cells.next();) {
    if (!over.insert(*sweep::Digest::parse(cell->id)).second) continue;
    batches.insert(*sweep::Digest::parse(cell->batch));
    ++missing.n_cells;
    missing.seconds += cell->seconds;
    missing.memory_bytes = std::max(missing.memory_bytes, cell->memory_bytes);
  }
  missing.n_batches = std::ssize(batches);
  return missing;
}

// "2-03:30:00": days, hours, minutes, as Slurm reads it.
std::string slurm_time(double seconds) {
  const auto minutes = static_cast<std::int64_t>(std::ceil(seconds / 60));
  return fmt::format("{}-{:02}:{:02}:00", minutes / 1440, minutes / 60 % 24, minutes % 60);
}

using Values = std::vector<std::pair<std::string, std::string>>;

// Twice what is estimated, and ten minutes; a quarter more memory, and a gibibyte: a task that is cut short
// loses no more than the batch at hand.
Values values_of(const SubmitArguments& arguments, const sweep::Plan& plan, const Missing& missing,
                 std::int64_t n_tasks) {
  constexpr std::int64_t kMebibyte = 1 << 20;
  const double seconds = 600 + 2 * missing.seconds / static_cast<double>(n_tasks);
  const auto mebibytes = 1024 + missing.memory_bytes * 5 / 4 / kMebibyte;
  std::string name;
  for (const char c : plan.study.name) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  return {{"name", "keyscope-" + name},
          {"tasks", fmt::format("{}", n_tasks)},
          {"cpus", fmt::format("{}", arguments.cpus)},
          {"memory", arguments.memory.empty() ? fmt::format("{}M", mebibytes) : arguments.memory},
          {"time", arguments.time.empty() ? slurm_time(seconds) : arguments.time},
          {"partition", arguments.partition},
          {"account", arguments.account},
          {"gres", arguments.gres},
          {"folder", quote_words({full_path(arguments.folder).string()})},
          {"program", quote_words({program_path().string()})}};
}

// A line with its places filled in, none of which lies in another's value; nothing where a value is empty.
std::optional<std::string> filled_line(std::string_view line, const Values& values) {
  std::string filled;
  while (!line.empty()) {
    const auto here = std::ranges::find_if(
        values, [&](const auto& value) { return line.starts_with("{" + value.first + "}"); });
    if (here == values.end()) {
      filled += line.front();
      line.remove_prefix(1);
      continue;
    }
    if (here->second.empty()) return std::nullopt;
    filled += here->second;
    line.remove_prefix(here->first.size() + 2);
  }
  return filled;
}

//   where: the template, for messages
std::string filled(const std::string& text, const Values& values, const std::string& where) {
  std::string script;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (const auto here = filled_line(line, values)) script += *here + '\n';
  if (!script.starts_with("#!"))
    throw FileError(fmt::format("{}: does not begin with #!, as sbatch wants; expected a script such as {}",
                                where, "the one that `sweep submit` writes where there is none"));
  return script;
}

// The study's own template, which is written where there is none.
fs::path template_of(const SubmitArguments& arguments, const sweep::SweepFolder& folder) {
  if (!arguments.template_file.empty()) return arguments.template_file;
  fs::path own = folder.path() / "sbatch.template";
  if (!fs::exists(own)) write_file(own, kTemplate, false);
  return own;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

// Jobs that were submitted before and are not over, as `squeue` has them.
std::vector<std::string> jobs_at_work(const fs::path& jobs) {
  std::vector<std::string> at_work = fs::exists(jobs) ? lines_of(read_text_file(jobs)) : lines_of("");
  if (at_work.empty()) return {};
  ChildProgram squeue({"squeue", "--noheader", "--me", "--format=%F"}, ChildProgram::Output::kRead);
  const std::vector<std::string> queued = lines_of(squeue.read());
  if (squeue.wait() != 0) throw Error("squeue failed, and its message stands above");
  std::erase_if(at_work,
                [&](const std::string& id) { return std::ranges::find(queued, id) == queued.end(); });
  return at_work;
}

std::string submitted(const fs::path& script) {
  ChildProgram sbatch({"sbatch", "--parsable", script.string()}, ChildProgram::Output::kRead);
  std::string id = sbatch.read();
  if (const int status = sbatch.wait(); status != 0)
    throw Error(fmt::format(
        "sbatch refused {}: it ended with {}, and its message stands above; edit the template, or "
        "give --partition, --account, --time, --mem",
        script.string(), status));
  return id.substr(0, id.find_first_of(";\n"));
}

// Where the numbers of submitted jobs stand, a line each, so that a study is not submitted twice. Open before
// one is submitted: what cannot be noted should not run.
class JobList {
 public:
  explicit JobList(const fs::path& file) : name_(file.string()), file_(file, O_RDWR | O_CREAT | O_APPEND) {
    if (file_.id() < 0) fail_to("be written", name_, errno);
  }

  //   throws FileError where it is not on the disk then
  void add(const std::string& id) {
    const std::string text = read_text_file(name_);
    const bool torn = !text.empty() && !text.ends_with('\n');
    write_all(file_.id(), (torn ? "\n" : "") + id + "\n", name_);
    sync_data(file_.id(), name_);
    sync_path(folder_of(name_));
  }

 private:
  std::string name_;
  Descriptor file_;
};

void run_submit(const SubmitArguments& arguments) {
  const sweep::SweepFolder folder(full_path(arguments.folder));
  const sweep::Plan plan = folder.read();
  const Missing missing = missing_of(folder, plan, arguments.retry_failed);
  if (missing.n_cells == 0) {
    say("Nothing is missing: every cell is finished{}\n",
        folder.failed().empty() ? "" : " or has failed; --retry-failed submits those");
    return;
  }
  const fs::path slurm = folder.path() / "slurm", jobs = slurm / "jobs";
  const auto at_work = arguments.dry_run ? std::vector<std::string>() : jobs_at_work(jobs);
  if (!at_work.empty() && !arguments.more) {
    say("{} {} not over and will do what is missing ({}); --more submits another beside\n",
        at_work.size() == 1 ? "Job " + at_work.front() : fmt::format("{} jobs", at_work.size()),
        at_work.size() == 1 ? "is" : "are", counted(missing.n_cells, "cell"));
    return;
  }
  const fs::path source = template_of(arguments, folder);
  const std::int64_t n_tasks = std::min<std::int64_t>(arguments.tasks, missing.n_batches);
  const Values values = values_of(arguments, plan, missing, n_tasks);
  const std::string script = filled(read_text_file(source), values, source.string());
  if (arguments.dry_run) {
    say_exactly(script);
    return;
  }
  fs::create_directories(slurm);
  const fs::path file = free_name(slurm / "job.sh");
  write_file(file, script, false);
  JobList list(jobs);
  const std::string id = submitted(file);
  try {
    if (arguments.retry_failed) folder.forget_failures();
    list.add(id);
  } catch (const std::exception& error) {
    throw FileError(fmt::format(
        "{}; job {} is submitted all the same: add a line with its number to {}, or end it by scancel {}",
        error.what(), id, jobs.string(), id));
  }
  say("Submitted job {}: {} for {} in {} batches\n", id, counted(n_tasks, "task"),
      counted(missing.n_cells, "cell"), format_count(missing.n_batches));
}

}  // namespace

void add_sweep_submit(CLI::App& sweep) {
  auto arguments = std::make_shared<SubmitArguments>();
  CLI::App* command =
      sweep.add_subcommand("submit", "Submit what is missing of a study to Slurm, as an array of workers");
  command
      ->add_option("DIR", arguments->folder, "A folder that `sweep plan` made, on a disk that all nodes see")
      ->required();
  command->add_flag("--slurm", arguments->slurm, "By sbatch")->required();
  command->add_option("--tasks", arguments->tasks, "Workers at most; no more than there are batches")
      ->default_val(64)
      ->check(one_or_more());
  command->add_option("--cpus", arguments->cpus, "Processors of each, which are its threads")
      ->default_val(4)
      ->check(one_or_more());
  command->add_option("--partition", arguments->partition, "As sbatch has it");
  command->add_option("--account", arguments->account, "As sbatch has it");
  command->add_option("--gres", arguments->gres, "As sbatch has it: gpu:1, say");
  command->add_option("--time", arguments->time, "As sbatch has it (default: by the plan's estimates)");
  command->add_option("--mem", arguments->memory, "As sbatch has it (default: by the plan's estimates)");
  command->add_option(
      "--template", arguments->template_file,
      "A script with {tasks}, {time} and so on (default: DIR/sbatch.template, which is written "
      "once and yours to edit)");
  command->add_flag("--retry-failed", arguments->retry_failed, "Also the cells that failed before");
  command->add_flag("--more", arguments->more, "Also where earlier jobs are not over");
  command->add_flag("--dry-run", arguments->dry_run, "Print the script and submit nothing");
  command->footer("Example:\n  keyscope sweep submit study --slurm --tasks 2 --dry-run");
  command->callback([arguments] { run_submit(*arguments); });
}

}  // namespace keyscope::commands
