#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "app/commands/capture.hpp"
#include "app/commands/commands.hpp"
#include "app/commands/console.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/inputs.hpp"
#include "base/text.hpp"
#include "capture/inference/engine.hpp"

namespace keyscope::commands {
namespace {

namespace fs = std::filesystem;

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

// Where a standard stream is closed, the next file that is opened would be it, and what is said go into it.
// Writing fails, as it does where it is closed.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", O_RDONLY);
}

// What names files that are written; all else on a command line may name what is read.
constexpr std::array<std::string_view, 8> kOutputs{"out",    "json", "csv",        "parquet",
                                                   "figure", "html", "screenshot", "state-file"};

// Where a word of a command line may name a file: FILE, FILE::ENTRY, NAME:key=FILE,key=FILE.
void note_word(const std::string& word) {
  note_named_input(word);
  if (const std::size_t entry = word.find("::"); entry != word.npos) note_named_input(word.substr(0, entry));
  for (std::size_t at = word.find('='); at != word.npos; at = word.find('=', at + 1))
    note_named_input(word.substr(at + 1, word.find(',', at) - at - 1));
}

// Whatever the command line names that is there is not replaced, --force or not, but where it is an output.
void note_inputs(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const bool is_output = std::ranges::any_of(
        kOutputs, [&](std::string_view name) { return option->check_lname(std::string(name)); });
    if (is_output) continue;
    for (const std::string& word : option->results()) note_word(word);
  }
  for (const CLI::App* command : app.get_subcommands()) note_inputs(*command);
}

// What went wrong. A file may have any word in it, and somebody is to read the sentence: of one that is
// longer than a screen the middle is left out.
std::string sentence(std::string_view text) {
  constexpr std::size_t kBeginning = 2000, kEnd = 400;
  if (text.size() <= kBeginning + kEnd) return std::string(text);
  const std::size_t first = character_before(text, kBeginning + 1),
                    last = character_before(text, text.size() - kEnd);
  return fmt::format("{} … ({} bytes) … {}", text.substr(0, first), format_count(std::ssize(text)),
                     text.substr(last));
}

// Of any error what it says; of a thread that has no room, which says no more than EAGAIN, what that is
// about.
std::string explained(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system == nullptr || system->code() != std::errc::resource_unavailable_try_again)
    return sentence(error.what());
  return fmt::format("no thread can be started: {}; expected room for some, so raise `ulimit -v` or `-u`",
                     error.what());
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
    say(stderr, "keyscope: {}\n{}", sentence(error.what()), hint(app));
    return kWrongUsage;
  } catch (const Cancelled& error) {
    say(stderr, "keyscope: {}\n", sentence(error.what()));
    return kInterrupted;
  } catch (const UsageError& error) {
    say(stderr, "keyscope: {}\n", sentence(error.what()));
    return kWrongUsage;
  } catch (const std::bad_alloc&) {
    say(stderr, "keyscope: memory ran out; try fewer tokens, fewer --layers or a smaller --block\n");
    return kFailed;
  } catch (const fs::filesystem_error& error) {  // its text is no sentence
    say(stderr, "keyscope: {}\n",
        sentence(fmt::format("{}: {}", error.path1().string(), error.code().message())));
    return kFailed;
  } catch (const std::exception& error) {
    say(stderr, "keyscope: {}\n", explained(error));
    return kFailed;
  }
}

}  // namespace

int run_command_line(int argc, char** argv) {
  try {
    hold_standard_streams();
    std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of writing, and said
    capture::let_threads_sleep_on_busy_machines();
    watch_interrupts();
    set_command_line(argc, argv);
    CLI::App app("Keyscope makes the geometry of the KV cache visible: which keys an eviction policy keeps.",
                 "keyscope");
    app.set_version_flag("--version", "keyscope " KEYSCOPE_VERSION);
    add_subcommands(app);
    app.parse_complete_callback([&app] { note_inputs(app); });
    return parse_and_run(app, argc, argv);
  } catch (const std::exception& error) {  // what could not even be reported
    say(stderr, "keyscope: {}\n", explained(error));
    return kFailed;
  }
}

}  // namespace keyscope::commands
