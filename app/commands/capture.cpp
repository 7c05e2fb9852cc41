#include <memory>
#include <string>

#include "base/errors.hpp"
#include "app/commands/budget_file.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/capture.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/hash_progress_line.hpp"
#include "capture/model/model_hash.hpp"
#include "capture/recording/output_path.hpp"

namespace keyscope::commands {
namespace {

struct CaptureArguments {
  CaptureCommandOptions options;
  std::string out;
  bool force = false;
  bool hash_weights = false;
  bool dry_run = false;
  bool quiet = false;
};

void run_capture_command(const CaptureArguments& arguments) {
  capture::CaptureOptions options = arguments.options.capture_options();
  options.command = command_line();
  if (!arguments.out.empty()) recording::output_path(arguments.out, arguments.force);
  // Before the weights, which take longer.
  tokenizer::check_prompt_form(arguments.options.model_folder(), arguments.options.prompt.form());
  const auto model =
      capture::Model::load(arguments.options.model_folder(), arguments.options.model_options());
  options.prompt_ids = arguments.options.prompt.read(model->tokenizer(), model->folder());
  if (!arguments.options.budget_file().empty())
    options.budgets = read_budget_file(arguments.options.budget_file(), model->config());
  const recording::RecordPlan plan = capture::plan_capture(*model, options);
  print_plan(*model, plan, arguments.out, arguments.quiet && !arguments.dry_run);
  if (arguments.dry_run) return;
  if (arguments.hash_weights)
    options.model_sha256 = capture::sha256_with_weights(*model, hash_progress_line(arguments.quiet));
  capture_to_file(*model, options, {arguments.out, arguments.force, arguments.quiet});
}

}  // namespace

void add_capture(CLI::App& app) {
  auto arguments = std::make_shared<CaptureArguments>();
  CLI::App* command = app.add_subcommand(
      "capture", "Run a model over a prompt, once per policy, and record keys, queries and attention");
  arguments->options.add_to(*command, true, true);
  command->add_option("--out", arguments->out, "The recording to write (HDF5)");
  command->add_flag("--hash-weights", arguments->hash_weights,
                    "Let the recording's model_sha256 be over the weights too, which are read once more");
  command->add_flag("--force", arguments->force, "Replace an existing --out once the new one is complete");
  command->add_flag("--dry-run", arguments->dry_run, "Say what it would cost and stop");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->footer(
      "Example:\n"
      "  keyscope capture --model assets/demo_model --prompt-file assets/demo_model/prompts/needle.txt \\\n"
      "    --policy none --policy keydiff --policy sink --budget 256 --block 64 --out needle.h5");
  command->callback([arguments] {
    if (arguments->out.empty() && !arguments->dry_run)
      throw UsageError("capture: --out FILE is needed (or --dry-run)");
    run_capture_command(*arguments);
  });
}

}  // namespace keyscope::commands
