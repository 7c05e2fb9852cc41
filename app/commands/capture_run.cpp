#include "app/commands/capture_run.hpp"

#include <array>
#include <system_error>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/interrupt.hpp"
#include "app/commands/progress.hpp"
#include "capture/recording/writer.hpp"

namespace keyscope::commands {
namespace {

std::string& stored_command_line() {
  static std::string text;
  return text;
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

void check_disk(const std::filesystem::path& out, std::int64_t needed) {
  std::error_code error;
  const auto space = std::filesystem::space(folder_of(out), error);
  if (!error && static_cast<std::uintmax_t>(needed) > space.available)
    throw Error(fmt::format(
        "{}: the recording needs {}, and only {} are free; record fewer --layers, use "
        "--store float16 or another disk",
        out.string(), format_bytes(needed), format_bytes(static_cast<std::int64_t>(space.available))));
}

}  // namespace

void set_command_line(int argc, char** argv) { stored_command_line() = quote_command(argc, argv); }

const std::string& command_line() { return stored_command_line(); }

void refuse_existing(const std::filesystem::path& path, bool force) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder_of(path), error))
    throw FileError(fmt::format("{}: its folder does not exist; make it first", path.string()));
  if (std::filesystem::is_directory(path, error))
    throw FileError(fmt::format("{}: is a folder, expected the name of a file to write", path.string()));
  if (!force && std::filesystem::exists(path, error))
    throw FileError(
        fmt::format("{}: exists already; choose another name, or replace it with --force", path.string()));
}

void print_plan(const capture::Model& model, const recording::RecordPlan& plan,
                const std::filesystem::path& out, bool quiet) {
  const capture::CaptureEstimate estimate = capture::estimate_capture(model, plan);
  if (!quiet) {
    fmt::print(stderr, "{}: {} layers, {} query / {} KV heads of {}, {} on {}\n", plan.model.name,
               plan.model.n_layers, plan.model.n_heads, plan.model.n_kv_heads, plan.model.head_dim,
               model.dtype_name(), model.device_name());
    fmt::print(stderr, "{} prompt tokens, {} {}, blocks of {}; estimated {} of disk, {} of memory, {}\n",
               plan.n_prompt(), plan.runs.size(), plan.runs.size() == 1 ? "run" : "runs",
               plan.runs.front().block_size, format_bytes(estimate.disk_bytes),
               format_bytes(estimate.weight_bytes + estimate.cache_bytes), format_duration(estimate.seconds));
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
    throw Cancelled(fmt::format("interrupted; what was recorded by then is kept in {}", target.out.string()));
  }
}

}  // namespace keyscope::commands
