#pragma once

#include <vector>

#include "app/commands/cli_fwd.hpp"
#include "app/measures/recording_measures.hpp"

namespace keyscope::commands {

// The command line `keyscope`: parses, runs the subcommand, prints what went wrong on stderr.
//   returns  the exit status
int run_command_line(int argc, char** argv);

// Each adds its subcommand to `app`: options, help with an example, and the callback that does the work.
void add_analyze(CLI::App& app);
void add_bench(CLI::App& app);
void add_calibrate(CLI::App& app);
void add_capture(CLI::App& app);
void add_choose_file(CLI::App& app);
void add_compare(CLI::App& app);
void add_demo(CLI::App& app);
void add_diff(CLI::App& app);
void add_eval(CLI::App& app);
void add_export(CLI::App& app);
void add_figure(CLI::App& app);
void add_grid(CLI::App& app);
void add_inspect(CLI::App& app);
void add_prompts(CLI::App& app);
void add_replay(CLI::App& app);
void add_report(CLI::App& app);
void add_reproduce(CLI::App& app);
void add_sweep(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_validate(CLI::App& app);
void add_view(CLI::App& app);

// Prints to stdout: one table over all runs, then per run one line a layer (means over its KV heads).
void print_measures(const recording::RecordingInfo& info, const std::vector<measures::RunMeasures>& runs);

// The first of these tables: one line a run, means over all layers and heads.
void print_run_summary(const recording::RecordingInfo& info, const std::vector<measures::RunMeasures>& runs);

}  // namespace keyscope::commands
