#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/commands/capture.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "base/errors.hpp"
#include "capture/inference/engine.hpp"

namespace keyscope::commands {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

void add_subcommands(CLI::App& app) {
  add_demo(app);
  add_capture(app);
  add_calibrate(app);
  add_replay(app);
  add_report(app);
  add_analyze(app);
  add_validate(app);
  add_eval(app);
  add_grid(app);
  add_reproduce(app);
  add_figure(app);
  add_export(app);
  add_view(app);
  add_choose_file(app);
  add_inspect(app);
  add_compare(app);
  add_diff(app);
  add_sweep(app);
  add_bench(app);
  add_prompts(app);
  add_tokenize(app);
  app.require_subcommand(1);
}

// Where to read on.
std::string hint(const CLI::App& app) {
  const auto used = app.get_subcommands();
  return fmt::format("Run `keyscope {}--help` for the options.\n",
                     used.empty() ? "" : used.front()->get_name() + " ");
}

// The first word, where it should be a subcommand and is none.
//   throws UsageError then, saying which there are
void require_known_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  if (std::ranges::find(known, argv[1]) != known.end()) return;
  throw UsageError(
      fmt::format("there is no subcommand '{}'; there are: {}", argv[1], fmt::join(known, ", ")));
}

// The one place where errors end: a sentence on stderr and the documented exit status.
int parse_and_run(CLI::App& app, int argc, char** argv) {
  try {
    require_known_subcommand(app, argc, argv);
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw Error("standard output: could not be written");
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      app.exit(error);  // prints what was asked for: help, the version
      return 0;
    }
    say(stderr, "keyscope: {}\n{}", error.what(), hint(app));
    return kWrongUsage;
  } catch (const Cancelled& error) {
    say(stderr, "keyscope: {}\n", error.what());
    return kInterrupted;
  } catch (const UsageError& error) {
    say(stderr, "keyscope: {}\n", error.what());
    return kWrongUsage;
  } catch (const std::bad_alloc&) {
    say(stderr, "keyscope: memory ran out; try fewer tokens, fewer --layers or a smaller --block\n");
    return kFailed;
  } catch (const std::exception& error) {
    say(stderr, "keyscope: {}\n", error.what());
    return kFailed;
  }
}

}  // namespace

int run_command_line(int argc, char** argv) {
  try {
    capture::let_threads_sleep_on_busy_machines();
    watch_interrupts();
    set_command_line(argc, argv);
    CLI::App app("Keyscope makes the geometry of the KV cache visible: which keys an eviction policy keeps.",
                 "keyscope");
    app.set_version_flag("--version", "keyscope " KEYSCOPE_VERSION);
    add_subcommands(app);
    return parse_and_run(app, argc, argv);
  } catch (const std::exception& error) {  // what could not even be reported
    say(stderr, "keyscope: {}\n", error.what());
    return kFailed;
  }
}

}  // namespace keyscope::commands
