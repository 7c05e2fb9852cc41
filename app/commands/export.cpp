#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "app/commands/capture.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/nexus.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::commands {
namespace {

struct ExportArguments {
  std::string file, out, layers, kv_heads, query_heads;
  std::vector<std::string> names, runs;
  std::optional<std::int64_t> block;
  int components = 2;
  bool force = false;
  bool quiet = false;
};

using recording::RecordingInfo;

// KV heads asked for; by default all recorded ones for a scatter, and the first for the large matrices.
std::vector<int> chosen_kv_heads(const RecordingInfo& info, const ExportArguments& arguments, bool matrix) {
  if (!arguments.kv_heads.empty()) return parse_index_list(arguments.kv_heads, "--kv-heads");
  return matrix ? std::vector<int>{info.heads.first()} : info.heads.list(info.model.n_kv_heads);
}

// One request per head of a layer, or one for the recording; figures of one run come once per run asked for.
void add_requests(std::vector<figures::FigureRequest>& requests, const RecordingInfo& info,
                  const ExportArguments& arguments, figures::FigureRequest request) {
  const bool several_runs = figures::shows_several_runs(request.name);
  const figures::FigureScope scope = figures::scope_of(request.name);
  const std::vector<std::string> given = figures::without_repeats(arguments.runs);
  std::vector<std::vector<std::string>> run_sets{given};
  if (!several_runs && given.size() > 1) {
    run_sets.clear();
    for (const auto& run : given) run_sets.push_back({run});
  }
  for (auto& runs : run_sets) {
    request.runs = runs;
    if (scope == figures::FigureScope::kRecording) {
      requests.push_back(request);
      continue;
    }
    if (scope == figures::FigureScope::kQueryHead && !arguments.query_heads.empty()) {
      for (const int head : parse_index_list(arguments.query_heads, "--query-heads")) {
        request.query_head = head;
        requests.push_back(request);
      }
      continue;
    }
    for (const int head : chosen_kv_heads(info, arguments, !several_runs)) {
      request.kv_head = head;
      requests.push_back(request);
    }
  }
}

std::vector<std::string> chosen_names(const RecordingInfo& info, const ExportArguments& arguments) {
  std::vector<std::string> names;
  names.reserve(arguments.names.size());
  for (const auto& name : arguments.names) names.emplace_back(figures::figure_name(name));
  if (!names.empty()) return names;
  for (const auto name : figures::figure_names()) {
    if (figures::is_recorded(info, name))
      names.emplace_back(name);
    else
      fmt::print(stderr, "keyscope: figure '{}' is left out: what it is made of was not recorded\n", name);
  }
  if (names.empty())
    throw FileError(fmt::format("{}: neither keys nor attention were recorded, so there is nothing to draw",
                                info.source));
  return names;
}

std::vector<figures::FigureRequest> plan_export(const RecordingInfo& info, const ExportArguments& arguments) {
  const std::vector<int> layers =
      arguments.layers.empty() ? info.layers : parse_index_list(arguments.layers, "--layers");
  std::vector<figures::FigureRequest> requests;
  for (const auto& name : chosen_names(info, arguments)) {
    figures::FigureRequest request;
    request.name = name;
    request.block = arguments.block;
    request.components = arguments.components;
    if (figures::scope_of(name) == figures::FigureScope::kRecording) {
      add_requests(requests, info, arguments, request);
      continue;
    }
    for (const int layer : layers) {
      request.layer = layer;
      add_requests(requests, info, arguments, request);
    }
  }
  for (const auto& request : requests) figures::check_request(info, request);
  return requests;
}

std::string label_of(const figures::FigureRequest& request) {
  std::string label = request.name;
  if (request.layer) label += fmt::format(", layer {}", *request.layer);
  if (request.query_head) return label + fmt::format(", query head {}", *request.query_head);
  if (request.kv_head) label += fmt::format(", KV head {}", *request.kv_head);
  return label;
}

void run_export(const ExportArguments& arguments) {
  for (const auto& name : arguments.names) figures::figure_name(name);  // says it if unknown
  output_path(arguments.out, arguments.force);
  refuse_same_file(arguments.file, arguments.out);
  const auto recording = recording::open_recording(arguments.file);
  const auto info = recording->info();
  const auto requests = plan_export(*info, arguments);

  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  Progress progress("figures", arguments.quiet);
  figures::NexusWriter writer(arguments.out, {info->provenance, info->model, info->prompt}, arguments.force);
  std::int64_t done = 0;
  const auto total = static_cast<std::int64_t>(requests.size());
  for (const auto& request : requests) {
    progress.update(done, total, label_of(request));
    writer.add(figures::build_figure(*recording, request));
    ++done;
    if (cancelled) throw Cancelled(fmt::format("interrupted; {} was not written", arguments.out));
  }
  writer.finish();
  progress.clear();
  if (!arguments.quiet) fmt::print(stderr, "{}: {} figures\n", arguments.out, total);
}

}  // namespace

void add_export(CLI::App& app) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command =
      app.add_subcommand("export",
                         "All or chosen figures of a recording in one NeXus HDF5 file, for H5Web, silx "
                         "and h5py");
  command->add_option("FILE", arguments->file, "A recording, or the .part of a killed capture")->required();
  command->add_option("--out", arguments->out, "The HDF5 file to write")->required();
  command->add_option("--figure", arguments->names, "Only this figure, repeatable: " + figure_help())
      ->allow_extra_args(false);
  command
      ->add_option("--run", arguments->runs,
                   "Only this run, repeatable; by default keyspace shows every run, "
                   "the others `none` or the first")
      ->allow_extra_args(false);
  command->add_option("--layers,--layer", arguments->layers, "Only these layers, such as 0,3,5-9")
      ->check(not_empty());
  command
      ->add_option(
          "--kv-heads,--kv-head", arguments->kv_heads,
          "Only these KV heads; by default keyspace of all recorded ones, and cosine-matrix and attention of "
          "the first")
      ->check(not_empty());
  command
      ->add_option("--query-heads,--query-head", arguments->query_heads,
                   "Query heads of attention; by default the first of each KV head's group")
      ->check(not_empty());
  command
      ->add_option("--block", arguments->block,
                   "The moment after this block; by default the end of the prompt")
      ->check(zero_or_more());
  command->add_option("--components", arguments->components, "Principal components of keyspace: 2 or 3")
      ->check(CLI::IsMember({2, 3}));
  command->add_flag("--force", arguments->force, "Replace an existing --out file");
  command->add_flag("--quiet", arguments->quiet, "No progress, no closing line");
  command->footer("Example:\n  keyscope export needle.h5 --out figures.h5");
  command->callback([arguments] { run_export(*arguments); });
}

}  // namespace keyscope::commands
