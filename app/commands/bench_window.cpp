#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "app/benchmarks/benchmark.hpp"
#include "app/commands/bench.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/console.hpp"
#include "app/commands/options.hpp"
#include "app/commands/view.hpp"
#include "app/window/benchmarks.hpp"
#include "base/errors.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace keyscope::commands {

namespace {

// What benchmarks of the window have in common.
struct BenchWindowOptions {
  std::string size = "1280x800";
  JsonTarget json;
  bool quiet = false;

  // Adds the options, and what has to be known before the example.
  void add_to(CLI::App& command, const std::string& example);
};

void BenchWindowOptions::add_to(CLI::App& command, const std::string& example) {
  command.add_option("--size", size, "WIDTHxHEIGHT in pixels (default: 1280x800)");
  command.add_option("--json", json.path, "Write the measurements as JSON; - for stdout");
  command.add_flag("--force", json.replace, "Replace an existing --json file");
  command.add_flag("--quiet", quiet, "No progress");
  command.footer(
      "Needs a display; without one, run it under `xvfb-run -a -s '-screen 0 1280x800x24'`.\n\n"
      "Example:\n" +
      example);
}

using benchmarks::Spread;

struct LiveArguments {
  CaptureCommandOptions live;
  int repeat = benchmarks::kLeastRounds;
  BenchWindowOptions window;
};

struct LiveResult {
  window::LiveTimes times;
  benchmarks::MachineLoad load;
};

LiveResult measure_live(const LiveArguments& arguments) {
  if (!arguments.live.prompt.given())
    throw UsageError("bench live: give a --prompt, --prompt-file or --prompt-ids");
  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  Progress progress("runs, alone and in the window", arguments.window.quiet);
  const WindowSize size = parse_window_size(arguments.window.size);
  benchmarks::LoadWatch load;
  load.look();
  window::LiveBenchmark benchmark;
  benchmark.request = live_request(arguments.live, "", false);
  benchmark.width = size.width;
  benchmark.height = size.height;
  benchmark.repeat = arguments.repeat;
  benchmark.cancelled = &cancelled;
  benchmark.on_run = [&](int done, int total) {
    load.look();
    progress.update(done, total, "");
  };
  window::LiveTimes times = window::measure_live(benchmark);
  return {std::move(times), load.seen()};
}

nlohmann::ordered_json row_of(const char* name, const Spread& seconds) {
  return {{"run", name},
          {"seconds", seconds.median},
          {"seconds_min", seconds.least},
          {"seconds_max", seconds.most}};
}

nlohmann::ordered_json live_json(const LiveArguments& arguments, const LiveResult& result,
                                 const benchmarks::PairedRatio& ratio) {
  const Spread alone = benchmarks::spread_of(result.times.alone).value();
  const Spread in_window = benchmarks::spread_of(result.times.in_window).value();
  return {{"format", 1},
          {"benchmark", "live"},
          {"model", arguments.live.model().name()},
          {"size", arguments.window.size},
          {"repeat", arguments.repeat},
          {"slowdown", ratio.ratio - 1},
          {"slowdown_low", json_number(ratio.low - 1)},
          {"slowdown_high", json_number(ratio.high - 1)},
          {"slowdown_told", ratio.told()},
          {"slowdown_doubt", ratio.told() ? nlohmann::ordered_json() : nlohmann::ordered_json(ratio.doubt)},
          {"ratios", benchmarks::ratio_rules_json(result.load)},
          {"rows", {row_of("alone", alone), row_of("in_window", in_window)}}};
}

void print_live(const LiveResult& result, const benchmarks::PairedRatio& ratio) {
  say("{:<16}{:>10}{:>10}{:>10}\n", "", "median s", "least", "most");
  for (const auto& [name, times] :
       {std::pair{"alone", &result.times.alone}, std::pair{"in the window", &result.times.in_window}}) {
    const Spread seconds = benchmarks::spread_of(*times).value();
    say("{:<16}{:>10.3f}{:>10.3f}{:>10.3f}\n", name, seconds.median, seconds.least, seconds.most);
  }
  if (ratio.told())
    say("the window adds {} %: median of {} and its {:.0f} % interval\n", benchmarks::excess_text(ratio),
        counted(ratio.n_rounds, "round"), 100 * benchmarks::kRatioConfidence);
  else
    say("what the window adds cannot be told: {}\n", ratio.doubt);
}

void run_live(const LiveArguments& arguments) {
  require_writable(arguments.window.json);
  const LiveResult result = measure_live(arguments);
  const benchmarks::PairedRatio ratio =
      benchmarks::paired_ratio({result.times.in_window, result.load}, {result.times.alone, result.load});
  if (!arguments.window.json.is_stdout()) print_live(result, ratio);
  if (arguments.window.json.given()) write_json(arguments.window.json, live_json(arguments, result, ratio));
}

}  // namespace

void add_bench_live(CLI::App& bench) {
  auto arguments = std::make_shared<LiveArguments>();
  CLI::App* command =
      bench.add_subcommand("live", "How much the window slows the run that it shows, untouched");
  arguments->live.add_to(*command, true, false);
  command->add_option("--repeat", arguments->repeat, "Of each")->check(one_or_more())->capture_default_str();
  arguments->window.add_to(
      *command,
      "  keyscope bench live --model assets/demo_model --prompt-file assets/demo_model/prompts/needle.txt "
      "\\\n"
      "    --policy none --policy keydiff --budget 128 --block 64");
  command->callback([arguments] { run_live(*arguments); });
}

namespace {

using window::GestureTimes;
using window::ViewTimes;

struct BenchViewArguments {
  std::string file;
  session::SelectionRequest selection;
  std::string view{session::kKeyspaceView};
  std::string density;
  std::vector<std::string> gestures;
  int frames = 300;
  BenchWindowOptions window;
};

const window::NamedGesture& find_gesture(const std::string& name) {
  const auto all = window::named_gestures();
  const auto found = std::ranges::find(all, name, &window::NamedGesture::name);
  if (found != all.end()) return *found;
  std::vector<std::string_view> names;
  for (const auto& gesture : all) names.push_back(gesture.name);
  throw UsageError(fmt::format("--gesture: '{}' is not one of {}", name, fmt::join(names, ", ")));
}

std::string_view name_of(window::Gesture gesture) {
  return std::ranges::find(window::named_gestures(), gesture, &window::NamedGesture::gesture)->name;
}

std::vector<window::Gesture> gestures_of(const std::vector<std::string>& names) {
  std::vector<window::Gesture> gestures;
  gestures.reserve(names.size());
  for (const auto& name : names) gestures.push_back(find_gesture(name).gesture);
  if (names.empty())
    for (const auto& each : window::named_gestures())
      if (each.gesture != window::Gesture::kBudget)
        gestures.push_back(each.gesture);  // not every recording can
  return gestures;
}

ViewTimes measure_view(const BenchViewArguments& arguments) {
  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  Progress progress("frames", arguments.window.quiet);
  window::ViewBenchmark benchmark;
  const std::string view = view_name(arguments.view);
  const WindowSize size = parse_window_size(arguments.window.size);
  figures::KeyspaceLook look;
  if (!arguments.density.empty()) look.density = figures::parse_density(arguments.density);
  benchmark.open = [&](session::Session& session) {
    session.choose_look(look);
    session.open(arguments.file, arguments.selection);
  };
  benchmark.view = view;
  benchmark.gestures = gestures_of(arguments.gestures);
  benchmark.n_frames = arguments.frames;
  benchmark.width = size.width;
  benchmark.height = size.height;
  benchmark.cancelled = &cancelled;
  const auto total = static_cast<std::int64_t>(benchmark.gestures.size()) * arguments.frames;
  benchmark.on_frame = [&](std::int64_t done) { progress.update(done, total, view); };
  return window::measure_view(benchmark);
}

void print(const BenchViewArguments& arguments, const ViewTimes& times) {
  say("{}, view {}, {} pixels; opened and drawn in {:.0f} ms\n", arguments.file, view_name(arguments.view),
      arguments.window.size, times.opened_ms);
  say("{:<8}{:>8}{:>12}{:>10}{:>12}\n", "gesture", "frames", "median ms", "p99 ms", "per second");
  for (const GestureTimes& gesture : times.gestures)
    say("{:<8}{:>8}{:>12.2f}{:>10.2f}{:>12.1f}\n", name_of(gesture.gesture), gesture.ms.size(),
        gesture.median_ms(), gesture.p99_ms(), gesture.per_second());
}

nlohmann::ordered_json view_json(const BenchViewArguments& arguments, const ViewTimes& times) {
  nlohmann::ordered_json json{{"format", 1},
                              {"benchmark", "view"},
                              {"file", arguments.file},
                              {"view", view_name(arguments.view)},
                              {"density", arguments.density.empty() ? "auto" : arguments.density},
                              {"size", arguments.window.size},
                              {"beside", arguments.selection.beside},
                              {"opened_ms", times.opened_ms},
                              {"rows", nlohmann::ordered_json::array()}};
  for (const GestureTimes& gesture : times.gestures)
    json["rows"].push_back({{"gesture", name_of(gesture.gesture)},
                            {"frames", gesture.ms.size()},
                            {"frame_ms", gesture.median_ms()},
                            {"frame_ms_p99", gesture.p99_ms()},
                            {"frame_ms_max", gesture.ms.back()},
                            {"per_second", gesture.per_second()}});
  return json;
}

void run_bench_view(const BenchViewArguments& arguments) {
  require_writable(arguments.window.json);
  const ViewTimes times = measure_view(arguments);
  if (!arguments.window.json.is_stdout()) print(arguments, times);
  if (arguments.window.json.given()) write_json(arguments.window.json, view_json(arguments, times));
}

}  // namespace

void add_bench_view(CLI::App& bench) {
  auto arguments = std::make_shared<BenchViewArguments>();
  CLI::App* command =
      bench.add_subcommand("view", "Frame times of the window on a recording, drawn off screen");
  command->add_option("FILE", arguments->file, "A recording, or the .part of a killed capture")->required();
  command->add_option("--run", arguments->selection.run, "The run to show");
  command
      ->add_option("--beside", arguments->selection.beside,
                   "A run to show beside it, repeatable: up to three")
      ->allow_extra_args(false);
  command->add_option("--layer", arguments->selection.layer, "The layer to show")->check(zero_or_more());
  command->add_option("--kv-head", arguments->selection.kv_head, "The KV head to show")
      ->check(zero_or_more());
  command->add_option("--view", arguments->view, "keyspace (the default), text, or a figure's name");
  command->add_option("--density", arguments->density,
                      "Of the key space: points, hexagons, or auto (the default): hexagons above 5,000 keys");
  std::string about;
  for (const auto& each : window::named_gestures())
    about += fmt::format("{}{} ({})", about.empty() ? "" : ", ", each.name, each.about);
  command
      ->add_option("--gesture", arguments->gestures,
                   "Only this, repeatable; all but budget unless given: " + about)
      ->allow_extra_args(false);
  command->add_option("--frames", arguments->frames, "Of each gesture (default: 300)")->check(one_or_more());
  arguments->window.add_to(*command,
                           "  keyscope bench view needle.h5 --gesture pan --gesture heads --frames 100");
  command->callback([arguments] { run_bench_view(*arguments); });
}

}  // namespace keyscope::commands
