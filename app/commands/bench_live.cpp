#include "app/commands/bench_live.hpp"

#include <atomic>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "app/benchmarks/spread.hpp"
#include "app/commands/bench_window_options.hpp"
#include "app/commands/capture_options.hpp"
#include "app/commands/interrupt.hpp"
#include "app/commands/view.hpp"
#include "app/commands/option_checks.hpp"
#include "app/commands/progress.hpp"
#include "app/commands/view_choices.hpp"
#include "app/window/live_benchmark.hpp"

namespace keyscope::commands {
namespace {

using benchmarks::Spread;

struct Arguments {
  CaptureCommandOptions live;
  int repeat = 3;
  BenchWindowOptions window;
};

window::LiveTimes measure(const Arguments& arguments) {
  if (!arguments.live.prompt.given())
    throw UsageError("bench live: give a --prompt, --prompt-file or --prompt-ids");
  std::atomic<bool> cancelled = false;
  OnInterrupt on_interrupt([&] { cancelled = true; });
  Progress progress("runs, alone and in the window", arguments.window.quiet);
  const WindowSize size = parse_window_size(arguments.window.size);
  window::LiveBenchmark benchmark;
  benchmark.request = live_request(arguments.live, "", false);
  benchmark.width = size.width;
  benchmark.height = size.height;
  benchmark.repeat = arguments.repeat;
  benchmark.cancelled = &cancelled;
  benchmark.on_run = [&](int done, int total) { progress.update(done, total, ""); };
  return window::measure_live(benchmark);
}

nlohmann::ordered_json row_of(const char* name, const Spread& seconds) {
  return {{"run", name},
          {"seconds", seconds.median},
          {"seconds_min", seconds.least},
          {"seconds_max", seconds.most}};
}

void run(const Arguments& arguments) {
  require_writable(arguments.window.json, arguments.live.model_folder());
  const window::LiveTimes times = measure(arguments);
  const Spread alone = benchmarks::spread_of(times.alone).value();
  const Spread in_window = benchmarks::spread_of(times.in_window).value();
  const double slowdown = in_window.median / alone.median - 1;
  if (!arguments.window.json.is_stdout()) {
    fmt::print("{:<16}{:>10}{:>10}{:>10}\n", "", "median s", "least", "most");
    for (const auto& [name, seconds] : {std::pair{"alone", alone}, std::pair{"in the window", in_window}})
      fmt::print("{:<16}{:>10.3f}{:>10.3f}{:>10.3f}\n", name, seconds.median, seconds.least, seconds.most);
    fmt::print("the window adds {:.1f} %\n", 100 * slowdown);
  }
  if (!arguments.window.json.given()) return;
  write_json(arguments.window.json, {{"format", 1},
                                     {"benchmark", "live"},
                                     {"model", arguments.live.model_folder()},
                                     {"size", arguments.window.size},
                                     {"repeat", arguments.repeat},
                                     {"slowdown", slowdown},
                                     {"rows", {row_of("alone", alone), row_of("in_window", in_window)}}});
}

}  // namespace

void add_bench_live(CLI::App& bench) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      bench.add_subcommand("live", "How much the window slows the run that it shows, untouched");
  arguments->live.add_to(*command, true, false);
  command->add_option("--repeat", arguments->repeat, "Of each (default: 3)")->check(one_or_more());
  arguments->window.add_to(
      *command,
      "  keyscope bench live --model assets/demo_model --prompt-file assets/demo_model/prompts/needle.txt "
      "\\\n"
      "    --policy none --policy keydiff --budget 128 --block 64");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace keyscope::commands
