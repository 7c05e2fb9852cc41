#include "app/commands/capture.hpp"

#include <array>
#include <system_error>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/interrupt.hpp"
#include "app/commands/progress.hpp"
#include "app/session/live_text.hpp"
#include "app/session/shell_words.hpp"
#include "app/validation/number_text.hpp"
#include "capture/recording/output_path.hpp"
#include "capture/recording/writer.hpp"

namespace keyscope::commands {
namespace {

std::string& stored_command_line() {
  static std::string text;
  return text;
}

void check_disk(const std::filesystem::path& out, std::int64_t needed) {
  std::error_code error;
  const auto space = std::filesystem::space(recording::folder_of(out), error);
  if (!error && static_cast<std::uintmax_t>(needed) > space.available)
    throw Error(
        fmt::format("{}: the recording needs {}, and only {} are free; record fewer --layers, use "
                    "--store float16 or another disk",
                    out.string(), validation::bytes_text(needed),
                    validation::bytes_text(static_cast<std::int64_t>(space.available))));
}

}  // namespace

void set_command_line(int argc, char** argv) {
  stored_command_line() = session::quote_words({argv, argv + argc});
}

const std::string& command_line() { return stored_command_line(); }

void print_plan(const capture::Model& model, const recording::RecordPlan& plan,
                const std::filesystem::path& out, bool quiet) {
  const capture::CaptureEstimate estimate = capture::estimate_capture(model, plan);
  if (!quiet) {
    const bool streamed = model.residency() == capture::Residency::kStreamed;
    fmt::print(stderr, "{}: {} layers, {} query / {} KV heads of {}, {} on {}{}\n", plan.model.name,
               plan.model.n_layers, plan.model.n_heads, plan.model.n_kv_heads, plan.model.head_dim,
               model.dtype_name(), model.device_name(),
               streamed ? "; weights do not fit into memory, layers are streamed from disk" : "");
    fmt::print(stderr, "{} prompt {}, {} {}, blocks of {}; estimated {} of disk, {} of memory, {}\n",
               plan.n_prompt(), plan.n_prompt() == 1 ? "token" : "tokens", plan.runs.size(),
               plan.runs.size() == 1 ? "run" : "runs", plan.runs.front().block_size,
               validation::bytes_text(estimate.disk_bytes),
               validation::bytes_text(estimate.weight_bytes + estimate.cache_bytes),
               session::duration_text(estimate.seconds));
  }
  if (!out.empty()) check_disk(out, estimate.disk_bytes);
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
  OnInterrupt on_interrupt([&] { control.cancel(); });
  std::array<recording::RecordSink*, 1> sinks{writer.get()};
  try {
    return capture::run_capture(model, options, sinks, control);
  } catch (const Cancelled&) {
    progress.clear();
    // What was cut short does not replace an older recording.
    const std::filesystem::path part = recording::output_path(target.out, true).string() + ".part";
    const auto& kept = std::filesystem::exists(part) ? part : target.out;
    throw Cancelled(fmt::format("interrupted; what was recorded by then is kept in {}", kept.string()));
  }
}

}  // namespace keyscope::commands
