#include "app/commands/capture.hpp"

#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/evaluation/evidence.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/outputs_together.hpp"
#include "base/text.hpp"
#include "capture/model/model.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::commands {

namespace {

struct CaptureArguments {
  CaptureCommandOptions options;
  std::string out, evidence;
  bool force = false;
  bool hash_weights = false;
  bool dry_run = false;
  bool quiet = false;
};

// What quantised caches hold once the prompt was read: rounded rows in the model's dtype, which a cache that
// packs them would hold in less.
void print_cache_bytes(const capture::Model& model, const recording::RecordPlan& plan,
                       const std::vector<capture::RunOutcome>& outcomes) {
  for (std::size_t run = 0; run < plan.runs.size(); ++run) {
    const analysis::CacheFormat& format = plan.runs[run].cache_format;
    if (!format.quantises()) continue;
    say(stderr, "{}: keys and values of {} in {}, rounded to {} with scales by {}; packed, {}\n",
        outcomes[run].name, bytes_text(outcomes[run].held_bytes), model.dtype_name(),
        analysis::cache_dtype_name(format.dtype), analysis::cache_scales_name(format.scales),
        bytes_text(outcomes[run].packed_bytes));
  }
}

// The tokens of a text in the prompt, where it stands first.
std::vector<std::array<std::int64_t, 2>> places_of(const std::string& text, const capture::Model& model,
                                                   std::span<const std::int32_t> prompt_ids) {
  const auto& tokenizer = model.folder_tokenizer().require("--evidence is text");
  const evaluation::Evidence found =
      evaluation::EvidenceFinder(tokenizer, prompt_ids).of_texts({&text, 1}, {}, "");
  if (found.places.empty())
    throw UsageError(fmt::format("--evidence: {} does not stand in the prompt", shown(text)));
  return {{found.places.front().first, found.places.front().end}};
}

void run_capture_command(const CaptureArguments& arguments) {
  capture::CaptureOptions options = arguments.options.capture_options();
  options.command = command_line();
  if (!arguments.out.empty()) output_path(arguments.out, arguments.force);
  // Before the weights, which take longer.
  const ModelChoice& choice = arguments.options.model();
  tokenizer::check_prompt_form(choice.folder(), arguments.options.prompt.form());
  const auto model = choice.load(arguments.options.model_options());
  options.prompt_ids = arguments.options.prompt.read(model->folder_tokenizer(), model->folder());
  if (!arguments.evidence.empty())
    options.evidence = places_of(arguments.evidence, *model, options.prompt_ids);
  if (!arguments.options.budget_file().empty())
    options.budgets = read_budget_file(arguments.options.budget_file(), model->config());
  const recording::RecordPlan plan = capture::plan_capture(*model, options);
  print_plan(*model, plan, arguments.out, arguments.quiet && !arguments.dry_run);
  if (arguments.dry_run) return;
  if (arguments.hash_weights)
    options.model_sha256 = capture::sha256_with_weights(*model, hash_progress_line(arguments.quiet));
  const auto outcomes = capture_to_file(*model, options, {arguments.out, arguments.force, arguments.quiet});
  if (!arguments.quiet) print_cache_bytes(*model, plan, outcomes);
}

}  // namespace

void add_capture(CLI::App& app) {
  auto arguments = std::make_shared<CaptureArguments>();
  CLI::App* command = app.add_subcommand(
      "capture", "Run a model over a prompt, once per policy, and record keys, queries and attention");
  arguments->options.add_to(*command, true, true);
  command->add_option("--out", arguments->out, "The recording to write (HDF5)");
  command->add_option("--evidence", arguments->evidence,
                      "A text of the prompt that the right answer stands on: the window shows where it went");
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

namespace {

std::string& stored_command_line() {
  static std::string text;
  return text;
}

}  // namespace

void set_command_line(int argc, char** argv) { stored_command_line() = quote_words({argv, argv + argc}); }

const std::string& command_line() { return stored_command_line(); }

void print_plan(const capture::Model& model, const recording::RecordPlan& plan,
                const std::filesystem::path& out, bool quiet) {
  const capture::CaptureEstimate estimate = capture::estimate_capture(model, plan);
  if (!quiet) {
    const bool streamed = model.residency() == capture::Residency::kStreamed;
    say(stderr, "{}: {} layers, {} query / {}{} KV heads of {}, {} on {}{}\n", plan.model.name,
        plan.model.n_layers, plan.model.n_heads, plan.model.layer_heads.empty() ? "" : "up to ",
        plan.model.n_kv_heads, plan.model.head_dim, model.dtype_name(), model.device_name(),
        streamed ? "; weights do not fit into memory, layers are streamed from disk" : "");
    say(stderr, "{}, {}, blocks of {}; estimated {} of disk, {} of memory, {}\n",
        counted(plan.n_prompt(), "prompt token"), counted(std::ssize(plan.runs), "run"),
        plan.runs.front().block_size, bytes_text(estimate.disk_bytes),
        bytes_text(estimate.weight_bytes + estimate.cache_bytes), duration_text(estimate.seconds));
  }
  if (!out.empty())
    require_disk(out, estimate.disk_bytes, "the recording",
                 "record fewer --layers, use --store float16 or another disk");
}

std::vector<capture::RunOutcome> capture_to_file(const capture::Model& model,
                                                 const capture::CaptureOptions& options,
                                                 const CaptureTarget& target) {
  auto writer = recording::make_recording_writer(target.out, target.replace);
  capture::CaptureControl control;
  Progress progress("tokens", target.quiet);
  control.on_progress = [&](const capture::CaptureProgress& now) {
    progress.update(now.tokens_done, now.tokens_total, now.run);
  };
  OnInterrupt on_interrupt([&] {
    control.cancel();
    cancel_policies(options.policies);
  });
  std::array<recording::RecordSink*, 1> sinks{writer.get()};
  OutputsTogether outputs;  // a capture that fails gives its recording no name
  try {
    auto outcomes = capture::run_capture(model, options, sinks, control);
    outputs.leave_to_outer();
    return outcomes;
  } catch (const Cancelled&) {
    progress.clear();
    if (!target.keeps_cut) throw;
    outputs.commit();
    // What was cut short does not replace an older recording.
    const std::filesystem::path part = output_path(target.out, true).string() + ".part";
    const auto& kept = std::filesystem::exists(part) ? part : target.out;
    throw Cancelled(fmt::format("interrupted; what was recorded by then is kept in {}", kept.string()));
  }
}

}  // namespace keyscope::commands
