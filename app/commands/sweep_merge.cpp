#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <fmt/format.h>

#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/commands/sweep.hpp"
#include "app/evaluation/example.hpp"
#include "app/sweep/merge.hpp"
#include "app/sweep/study_plan.hpp"
#include "app/sweep/sweep_folder.hpp"
#include "app/validation/prompt_record.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/outputs_together.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "capture/python/python_policy.hpp"

namespace keyscope::commands {

namespace {

using sweep::Measure;

struct MergeArguments {
  std::string folder, out, csv, parquet;
  bool copy = false, force = false, quiet = false;
};

std::vector<Measure> eval_measures(const std::string& line, const std::string& where) {
  const auto result = evaluation::parse_result(line, where);
  std::vector<Measure> measures;
  for (const auto& [name, value] : result.scores) measures.push_back({name, "", value});
  return measures;
}

// Of the full cache everything; of the others what says how well they keep it. What attention says under
// eviction is biased by what had been evicted before.
bool is_compared(const validation::Quantity& quantity, const std::string& policy) {
  return policy == "none" ? !quantity.against_full_cache : quantity.against_full_cache;
}

std::vector<Measure> validate_measures(const std::string& line, const std::string& where) {
  const auto record = validation::parse_prompt_record(line, where);
  std::vector<Measure> measures;
  for (const measures::RunMeasures& run : record.runs)
    for (const validation::Quantity& quantity : validation::quantities())
      if (const auto value = validation::value_of(run, quantity); value && is_compared(quantity, run.run))
        measures.push_back({std::string(quantity.id), run.run, *value});
  return measures;
}

std::vector<Measure> capture_measures(const std::string& line, const std::string& where) {
  const nlohmann::json json = parse_json_object(line, where);
  const JsonField result(json, where, "");
  std::vector<Measure> measures{{"peak_cache_rows", "", result.member("peak_cache_rows").number()}};
  std::int64_t n_generated = 0;
  result.member("generated").for_each([&](const JsonField&) { ++n_generated; });
  if (n_generated > 0) measures.push_back({"generated", "", static_cast<double>(n_generated)});
  return measures;
}

std::vector<Measure> measures_of(const sweep::StudyJob& job, const std::string& lines,
                                 const std::string& where) {
  const std::string line = lines.substr(0, lines.find('\n'));
  if (job.command == "capture") return capture_measures(line, where);
  if (job.command == "validate") return validate_measures(line, where);
  // A report has both.
  return job.command == "report" && line.starts_with(R"({"key":)") ? validate_measures(line, where)
                                                                   : eval_measures(line, where);
}

// By the Python package: Parquet is a format of its world.
//   study: the merged file, which need not have its name yet
void write_parquet(const std::string& study, const std::string& out, bool replace) {
  AtomicFile output(out, replace);
  const std::string python = capture::python_program();
  ChildProgram program({python, "-m", "keyscope.study", study, output.part().string()},
                       ChildProgram::Output::kRead);
  program.read();
  if (const int status = program.wait(); status != 0)
    throw Error(fmt::format(
        "--parquet: {} -m keyscope.study ended with {}; it needs the package keyscope and pyarrow, "
        "in the Python that KEYSCOPE_PYTHON names; nothing is written",
        python, status));
  output.commit();
}

void print_outcome(const sweep::MergeOutcome& outcome, const std::string& out) {
  const auto count = [](std::int64_t n) { return format_count(n); };
  say("{}: {} done, {} failed, {} missing, {} damaged; {}, {}\n", out, counted(outcome.n_done, "cell"),
      count(outcome.n_failed), count(outcome.n_missing), count(outcome.n_damaged),
      counted(outcome.n_recordings, "recording"), counted(outcome.n_figures, "figure"));
  for (const std::string& damage : outcome.damages) say(stderr, "keyscope: warning: {}\n", damage);
}

void run_merge(const MergeArguments& arguments) {
  const JsonTarget csv{arguments.csv, arguments.force, "--csv"};
  const sweep::SweepFolder folder(full_path(arguments.folder));
  const sweep::Plan plan = folder.read();
  require_different({{"--out", arguments.out}, {"--csv", csv.file()}, {"--parquet", arguments.parquet}});
  require_writable(csv);
  if (!arguments.parquet.empty()) output_path(arguments.parquet, arguments.force);
  sweep::MergeOptions options;
  options.copy = arguments.copy;
  options.replace = arguments.force;
  std::optional<Progress> progress;
  std::string counted_now;
  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  options.progress = [&](std::int64_t done, std::int64_t total, std::string_view what) {
    if (cancelled) throw Cancelled("interrupted; nothing was written");
    if (counted_now != what) {
      counted_now = what;
      progress.emplace(counted_now, arguments.quiet);
    }
    progress->update(done, total, "merged");
  };
  OutputsTogether outputs;
  sweep::MergeOutcome outcome = sweep::merge(folder, plan, measures_of, arguments.out, options);
  progress.reset();
  if (csv.given()) write_text(csv, [&](const auto& write) { sweep::write_csv(outcome.table, write); });
  if (!arguments.parquet.empty())
    write_parquet(outputs.part_of(arguments.out).string(), arguments.parquet, arguments.force);
  outputs.commit();
  if (!csv.is_stdout()) print_outcome(outcome, arguments.out);
}

}  // namespace

void add_sweep_merge(CLI::App& sweep) {
  auto arguments = std::make_shared<MergeArguments>();
  CLI::App* command = sweep.add_subcommand(
      "merge",
      "Put what there is of a study into one file: its table, figures over its axes, its recordings");
  command->add_option("DIR", arguments->folder, "A folder that `sweep plan` made")->required();
  command->add_option("--out", arguments->out, "The study's file")->required();
  command->add_flag("--copy", arguments->copy, "Copy recordings into it; else it refers to those in DIR");
  command->add_option("--csv", arguments->csv, "Also write the table as CSV; - is stdout");
  command->add_option("--parquet", arguments->parquet, "Also write it as Parquet, by the Python package");
  command->add_flag("--force", arguments->force, "Replace existing files");
  add_quiet(*command, arguments->quiet);
  command->footer("Example:\n  keyscope sweep merge study --out needles.h5 --csv needles.csv");
  command->callback([arguments] { run_merge(*arguments); });
}

}  // namespace keyscope::commands
