#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <oneapi/tbb/parallel_pipeline.h>
#include <oneapi/tbb/task_arena.h>

#include "app/commands/capture.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/drawing/view_page.hpp"
#include "app/figures/catalogue.hpp"
#include "app/figures/nexus.hpp"
#include "app/measures/measured_heads.hpp"
#include "app/session/made_figures.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/jobs.hpp"
#include "base/text.hpp"
#include "capture/recording/recording.hpp"

namespace keyscope::commands {
namespace {

struct ExportArguments {
  std::string file, out, html, layers, kv_heads, query_heads;
  std::vector<std::string> names, runs;
  std::optional<std::int64_t> block;
  int components = 2;
  bool force = false;
  bool quiet = false;
};

using recording::RecordingInfo;

// KV heads asked for; by default all recorded ones for a scatter, and the first for the large matrices.
std::vector<int> chosen_kv_heads(const RecordingInfo& info, int layer, const ExportArguments& arguments,
                                 bool matrix) {
  if (!arguments.kv_heads.empty()) return parse_index_list(arguments.kv_heads, "--kv-heads");
  return matrix ? std::vector<int>{info.heads.first()} : info.kv_heads(layer);
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
    for (const int head :
         chosen_kv_heads(info, figures::chosen_layer(info, request), arguments, !several_runs)) {
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
      say(stderr, "keyscope: figure '{}' is left out: what it is made of was not recorded\n", name);
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

// A page shows the key space of one head and nothing else; what it has no use for would change nothing.
void refuse_options_of_figures(const CLI::App& command) {
  for (const char* name : {"--figure", "--query-heads", "--components"})
    if (command.get_option(name)->count() > 0)
      throw UsageError(fmt::format(
          "export: {} does nothing to --html, which shows the key space of one KV head in two components; "
          "leave it out, or write figures with --out FILE.h5",
          name));
}

// The one that a list of layers or heads names; empty where none is given.
std::optional<int> only_index(const std::string& text, const std::string& option) {
  if (text.empty()) return {};
  const std::vector<int> indices = parse_index_list(text, option);
  if (indices.size() != 1)
    throw UsageError(
        fmt::format("export: {} names {} of them, and --html shows one; name one, or write all "
                    "of them with --out FILE.h5",
                    option, indices.size()));
  return indices.front();
}

// The head and runs that `figure FILE keyspace` shows; the text begins with a run that evicts.
void write_page(const ExportArguments& arguments, const CLI::App& command) {
  refuse_options_of_figures(command);
  figures::FigureRequest request;
  request.name = "keyspace";
  request.runs = arguments.runs;
  request.layer = only_index(arguments.layers, "--layer");
  request.kv_head = only_index(arguments.kv_heads, "--kv-head");
  request.block = arguments.block;
  if (!figures::is_page_path(arguments.html))
    throw UsageError(fmt::format("--html {}: expected a name that ends in .html", arguments.html));
  output_path(arguments.html, arguments.force);

  const auto recording = recording::open_recording(arguments.file);
  const auto info = recording->info();
  figures::check_request(*info, request);
  figures::ViewPage page{.layer = figures::chosen_layer(*info, request),
                         .kv_head = figures::chosen_kv_head(*info, request),
                         .block = arguments.block.value_or(-1)};
  const std::vector<int> runs = figures::chosen_runs(*info, request);
  for (const int run : runs) page.runs.push_back({recording.get(), run});
  if (const auto evicting = figures::chosen_evicting_runs(*info, request); !evicting.empty())
    page.main_run = std::ranges::find(runs, evicting.front()) - runs.begin();
  const std::string html = figures::view_page(page);
  write_file(arguments.html, html, arguments.force);
  if (!arguments.quiet) say(stderr, "{}: {}\n", arguments.html, bytes_text(std::ssize(html)));
}

void run_export(const ExportArguments& arguments, const CLI::App& command) {
  if (!arguments.html.empty()) return write_page(arguments, command);
  if (arguments.out.empty())
    throw UsageError("export: give --out FILE.h5 for the figures, or --html FILE.html for a page to send");
  for (const auto& name : arguments.names) figures::figure_name(name);  // says it if unknown
  output_path(arguments.out, arguments.force);
  const auto recording = recording::open_recording(arguments.file);
  const auto info = recording->info();
  const auto requests = plan_export(*info, arguments);

  JobWatch watch("export");
  OnInterrupt on_interrupt([&] { watch.cancel(); });
  Progress progress("figures", arguments.quiet);
  figures::NexusWriter writer(arguments.out, {info->provenance, info->model, info->prompt}, arguments.force);
  // Each head that is read looks whether to go on: one figure may take minutes.
  const session::WatchedRecording watched(*recording, {}, watch);
  const measures::MeasuredHeads heads(watched);
  std::size_t next = 0;
  std::int64_t done = 0, n_written = 0;
  const auto total = static_cast<std::int64_t>(requests.size());
  const auto take = [&](oneapi::tbb::flow_control& control) {
    if (watch.cancelled() || next == requests.size()) control.stop();
    return next++;
  };
  using Made = std::optional<figures::Figure>;  // empty: there is nothing to show in it
  const auto build = [&](std::size_t i) -> Made {
    try {
      return figures::build_figure(heads, requests[i]);
    } catch (const figures::NothingToDraw& why) {
      if (!arguments.names.empty()) {
        watch.cancel();
        throw;
      }
      say(stderr, "keyscope: figure '{}' is left out: {}\n", requests[i].name, why.what());
    } catch (...) {
      // Once all is called off, what fails only ends; the first to fail calls the others off.
      if (!watch.cancelled()) {
        watch.cancel();
        throw;
      }
    }
    return std::nullopt;
  };
  const auto write = [&](const Made& figure) {
    if (figure) writer.add(*figure);
    n_written += figure ? 1 : 0;
    const std::string label = label_of(requests[static_cast<std::size_t>(done)]);
    progress.update(++done, total, label);
  };
  // As many figures at a time as there are processors are made, and they are written in order.
  using oneapi::tbb::filter_mode, oneapi::tbb::make_filter;
  oneapi::tbb::parallel_pipeline(oneapi::tbb::this_task_arena::max_concurrency(),
                                 make_filter<void, std::size_t>(filter_mode::serial_in_order, take) &
                                     make_filter<std::size_t, Made>(filter_mode::parallel, build) &
                                     make_filter<Made, void>(filter_mode::serial_in_order, write));
  if (watch.cancelled()) throw Cancelled(fmt::format("interrupted; {} was not written", arguments.out));
  writer.finish();
  progress.clear();
  if (!arguments.quiet) say(stderr, "{}: {} figures\n", arguments.out, n_written);
}

}  // namespace

void add_export(CLI::App& app) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command =
      app.add_subcommand("export",
                         "All or chosen figures of a recording in one NeXus HDF5 file, for H5Web, silx "
                         "and h5py, or one head as a page for a browser");
  command->add_option("FILE", arguments->file, "A recording, or the .part of a killed capture")->required();
  CLI::Option* out = command->add_option("--out", arguments->out, "The HDF5 file to write");
  command
      ->add_option("--html", arguments->html,
                   "Instead: the key space of one head beside the text as one page that opens in a browser, "
                   "offline; of every run, the first recorded layer and KV head unless they are chosen")
      ->excludes(out);
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
  command->add_flag("--force", arguments->force, "Replace an existing --out or --html file");
  command->add_flag("--quiet", arguments->quiet, "No progress, no closing line");
  command->footer(
      "Example:\n  keyscope export needle.h5 --out figures.h5\n"
      "  keyscope export needle.h5 --html needle.html --layer 1 --kv-head 0");
  command->callback([arguments, command] { run_export(*arguments, *command); });
}

}  // namespace keyscope::commands
