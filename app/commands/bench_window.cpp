#include "app/commands/bench_view.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "app/commands/bench_window_options.hpp"
#include "app/commands/interrupt.hpp"
#include "app/commands/option_checks.hpp"
#include "app/commands/progress.hpp"
#include "app/commands/view_choices.hpp"
#include "app/window/benchmarks.hpp"

namespace keyscope::commands {
namespace {

using window::GestureTimes;
using window::ViewTimes;

struct Arguments {
  std::string file;
  session::SelectionRequest selection;
  std::string view{session::kKeyspaceView};
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
  for (const auto& name : names) gestures.push_back(find_gesture(name).gesture);
  if (names.empty())
    for (const auto& each : window::named_gestures()) gestures.push_back(each.gesture);
  return gestures;
}

ViewTimes measure(const Arguments& arguments) {
  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  Progress progress("frames", arguments.window.quiet);
  window::ViewBenchmark benchmark;
  const std::string view = view_name(arguments.view);
  const WindowSize size = parse_window_size(arguments.window.size);
  benchmark.open = [&](session::Session& session) { session.open(arguments.file, arguments.selection); };
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

void print(const Arguments& arguments, const ViewTimes& times) {
  fmt::print("{}, view {}, {} pixels; opened and drawn in {:.0f} ms\n", arguments.file,
             view_name(arguments.view), arguments.window.size, times.opened_ms);
  fmt::print("{:<8}{:>8}{:>12}{:>10}{:>12}\n", "gesture", "frames", "median ms", "p99 ms", "per second");
  for (const GestureTimes& gesture : times.gestures)
    fmt::print("{:<8}{:>8}{:>12.2f}{:>10.2f}{:>12.1f}\n", name_of(gesture.gesture), gesture.ms.size(),
               gesture.median_ms(), gesture.p99_ms(), gesture.per_second());
}

nlohmann::ordered_json to_json(const Arguments& arguments, const ViewTimes& times) {
  nlohmann::ordered_json json{{"format", 1},
                              {"benchmark", "view"},
                              {"file", arguments.file},
                              {"view", view_name(arguments.view)},
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

void run(const Arguments& arguments) {
  require_writable(arguments.window.json, arguments.file);
  const ViewTimes times = measure(arguments);
  if (!arguments.window.json.is_stdout()) print(arguments, times);
  if (arguments.window.json.given()) write_json(arguments.window.json, to_json(arguments, times));
}

}  // namespace

void add_bench_view(CLI::App& bench) {
  auto arguments = std::make_shared<Arguments>();
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
  std::string about;
  for (const auto& each : window::named_gestures())
    about += fmt::format("{}{} ({})", about.empty() ? "" : ", ", each.name, each.about);
  command->add_option("--gesture", arguments->gestures, "Only this, repeatable: " + about)
      ->allow_extra_args(false);
  command->add_option("--frames", arguments->frames, "Of each gesture (default: 300)")->check(one_or_more());
  arguments->window.add_to(*command,
                           "  keyscope bench view needle.h5 --gesture pan --gesture heads --frames 100");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace keyscope::commands
